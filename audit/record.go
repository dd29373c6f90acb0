package audit

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Record is a row with everything that proves it: one line of an export, and what a node sends another for a gap. A record
// of a gap that was given up has GapTo, and no event.
type Record struct {
	Incarnation uint64  `json:"incarnation"`
	Log         Log     `json:"log"`
	Index       uint64  `json:"index"` // of a gap: its first
	Ordinal     uint32  `json:"ordinal"`
	GapTo       uint64  `json:"gap_to,omitempty"` // a gap's last index
	Leaf        *uint64 `json:"leaf,omitempty"`   // number in the Merkle log, from 0; nil: not numbered yet
	Hash        Hash    `json:"hash"`             // of the leaf

	Dropped bool `json:"dropped,omitempty"` // retention dropped what it said: only tenant, position and hash are there
	Erased  bool `json:"erased,omitempty"`  // its personal text was erased, and the salt with it

	Tenant      string `json:"tenant,omitempty"`
	Kind        string `json:"kind,omitempty"`
	AtMS        int64  `json:"at_ms,omitempty"`
	Class       string `json:"class,omitempty"`
	Key         string `json:"key,omitempty"`
	Request     string `json:"request,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Version     uint64 `json:"version,omitempty"`
	Reason      string `json:"reason,omitempty"`
	APIKey      string `json:"api_key,omitempty"`
	Count       uint64 `json:"count,omitempty"`
	Unprotected bool   `json:"unprotected,omitempty"`
	Detail      string `json:"detail,omitempty"`

	Personal []byte `json:"personal,omitempty"` // salted hash of the texts below, 32 bytes
	Salt     []byte `json:"salt,omitempty"`     // of this row alone, 16 bytes
	Holder   string `json:"holder,omitempty"`
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`

	Proof tlog.RecordProof `json:"proof,omitempty"` // that a tree of a size told elsewhere has the leaf
}

// ErrWrongHash says that a record is not what its hash commits to. Do not trust whoever made it.
var ErrWrongHash = errors.New("record does not have its hash")

func newRecord(incarnation uint64, p RowPosition, e *Event) Record {
	return Record{Incarnation: incarnation, Log: p.Log, Index: p.Index, Ordinal: p.Ordinal,
		Tenant: e.Tenant, Kind: e.Kind, AtMS: e.AtMS, Class: e.Class, Key: e.Key, Request: e.Request, Token: e.Token,
		Epoch: e.Epoch, Version: e.Version, Reason: e.Reason, APIKey: e.APIKey, Count: e.Count, Unprotected: e.Unprotected,
		Detail: e.Detail, Holder: e.Holder, By: e.By, Note: e.Note}
}

// recordOf makes the record of an event just projected.
func recordOf(incarnation uint64, p RowPosition, entrySalt [16]byte, e Event) Record {
	r := newRecord(incarnation, p, &e)
	salt := rowSalt(entrySalt, p.Ordinal)
	personal := personalHash(salt, &e)
	r.Salt, r.Personal = salt[:], personal[:]
	r.Hash = tlog.RecordHash(eventLeaf(incarnation, p, &e, personal))
	return r
}

// Position is where the record's event came from.
func (r *Record) Position() RowPosition { return RowPosition{r.Log, r.Index, r.Ordinal} }

// Event is what the record says; personal text is empty if it was erased.
func (r *Record) Event() Event {
	return Event{Kind: r.Kind, Tenant: r.Tenant, Class: r.Class, Key: r.Key, Request: r.Request, Token: r.Token, Epoch: r.Epoch,
		Version: r.Version, Reason: r.Reason, APIKey: r.APIKey, Count: r.Count, Unprotected: r.Unprotected, Detail: r.Detail,
		Holder: r.Holder, By: r.By, Note: r.Note, AtMS: r.AtMS}
}

// Verify recomputes the record's hash from what it says and compares; a difference is ErrWrongHash. Of a record that
// retention dropped nothing can be recomputed: its hash has to be proved against a root.
func (r *Record) Verify() error {
	if r.GapTo != 0 {
		return r.compare(tlog.RecordHash(gapLeaf(r.Incarnation, r.Log, r.Index, r.GapTo)))
	}
	if r.Dropped {
		return nil
	}
	e := r.Event()
	var personal [32]byte
	if len(r.Personal) != len(personal) {
		return r.wrong("its personal hash is missing")
	}
	copy(personal[:], r.Personal)
	if !r.Erased {
		if len(r.Salt) != 16 {
			return r.wrong("its salt is missing")
		}
		if personalHash([16]byte(r.Salt), &e) != personal {
			return r.wrong("holder, by or note")
		}
	} else if len(r.Salt) != 0 || e.Holder != "" || e.By != "" || e.Note != "" {
		return r.wrong("erased, but there is personal text")
	}
	return r.compare(tlog.RecordHash(eventLeaf(r.Incarnation, r.Position(), &e, personal)))
}

func (r *Record) compare(want Hash) error {
	if r.Hash != want {
		return r.wrong(fmt.Sprintf("it has %v, its content %v", r.Hash, want))
	}
	return nil
}

func (r *Record) wrong(why string) error {
	return fmt.Errorf("log %d, entry %d, event %d: %w: %s", r.Log, r.Index, r.Ordinal, ErrWrongHash, why)
}
