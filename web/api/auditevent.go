package api

import (
	"encoding/hex"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// auditEvent is a row as it is published.
func auditEvent(row audit.Row) wire.AuditEvent {
	e := row.Event
	return wire.AuditEvent{Position: auditPosition(row.Position).String(), Row: row.Leaf, At: wire.TimeMS(e.AtMS), Kind: e.Kind,
		Tenant: e.Tenant, Class: e.Class, Key: e.Key, Request: e.Request, Token: e.Token, Epoch: e.Epoch, Version: e.Version,
		Reason: e.Reason, APIKey: e.APIKey, Count: e.Count, Unprotected: e.Unprotected, Detail: e.Detail,
		Holder: e.Holder, By: e.By, Note: e.Note, Erased: row.Erased}
}

func auditPosition(p audit.RowPosition) wire.AuditPosition {
	return wire.AuditPosition{Log: uint32(p.Log), Index: p.Index, Ordinal: p.Ordinal}
}

// eventProof is what the row's leaf is made of, beside what the event says. Who may read the personal text may have its
// salt.
func eventProof(row audit.Row) *wire.AuditEventProof {
	r := row.Record()
	return &wire.AuditEventProof{Incarnation: r.Incarnation, Leaf: hex.EncodeToString(r.Hash[:]),
		Text: hex.EncodeToString(r.Personal), Salt: hex.EncodeToString(r.Salt)}
}
