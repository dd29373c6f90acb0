package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	auditLogRule = "must be the name of a log: control, or partition- and its number"
	rowRule      = "must be the number of a row, from 0, and below `rows`"
	rowsRule     = "must be how many rows the tree has, a whole number from 1"
	fromRule     = "must be how many rows the older tree has, a whole number from 1, and not more than `to`"
	toRule       = "must be how many rows the newer tree has, a whole number from 1"
)

// auditCheckpoints is GET /v1/audit/checkpoint: how many rows each log has here, and the root over them.
func (a *API) auditCheckpoints(c echo.Context, p tenants.Principal) error {
	if err := nothingElse(c); err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	out := wire.AuditCheckpoints{Checkpoints: []wire.AuditCheckpoint{}, CompleteTo: map[string]uint64{}}
	for _, log := range a.platform.Audit().Logs(p.Tenant) {
		at, err := a.platform.Audit().Checkpoint(ctx, log)
		if err != nil {
			return auditFailure(ctx, err)
		}
		out.Checkpoints = append(out.Checkpoints, checkpoint(log, at))
		out.CompleteTo[logName(log)] = at.Complete
	}
	return writeAuditJSON(c, out)
}

func checkpoint(log audit.Log, at audit.Position) wire.AuditCheckpoint {
	return wire.AuditCheckpoint{Log: logName(log), Rows: at.Rows, Root: hex.EncodeToString(at.Root[:])}
}

func logName(log audit.Log) string { return wire.AuditLogName(uint32(log)) }

// auditProof is GET /v1/audit/proof: that a row is among a log's first rows.
func (a *API) auditProof(c echo.Context, p tenants.Principal) error {
	log, params, err := a.proofParams(c, p, "row", "rows")
	if err != nil {
		return err
	}
	rows, rowsOK := whole(params.Get("rows"), 1, wholeMax)
	row, rowOK := whole(params.Get("row"), 0, wholeMax)
	switch {
	case !rowsOK:
		return &badRequest{"rows", rowsRule}
	case !rowOK || row >= rows:
		return &badRequest{"row", rowRule}
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	proof, err := a.platform.Audit().ProveRow(ctx, log, row, rows)
	if err != nil {
		return proofFailure(ctx, log, rows, err)
	}
	return writeAuditJSON(c, wire.AuditRowProof{Log: logName(log), Row: row, Rows: rows, Proof: hexHashes(proof)})
}

// auditConsistency is GET /v1/audit/consistency: that a log was only added to.
func (a *API) auditConsistency(c echo.Context, p tenants.Principal) error {
	log, params, err := a.proofParams(c, p, "from", "to")
	if err != nil {
		return err
	}
	to, toOK := whole(params.Get("to"), 1, wholeMax)
	from, fromOK := whole(params.Get("from"), 1, wholeMax)
	switch {
	case !toOK:
		return &badRequest{"to", toRule}
	case !fromOK || from > to:
		return &badRequest{"from", fromRule}
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	proof, err := a.platform.Audit().ProvePrefix(ctx, log, from, to)
	if err != nil {
		return proofFailure(ctx, log, to, err)
	}
	return writeAuditJSON(c, wire.AuditConsistency{Log: logName(log), From: from, To: to, Proof: hexHashes(proof)})
}

// proofParams reads which log a proof is asked for.
func (a *API) proofParams(c echo.Context, p tenants.Principal, known ...string) (audit.Log, url.Values, error) {
	if err := noBody(c); err != nil {
		return 0, nil, err
	}
	params, err := queryOf(c, append(known, "log")...)
	if err != nil {
		return 0, nil, err
	}
	log, ok := wire.ParseAuditLog(params.Get("log"))
	if !ok || !slices.Contains(a.platform.Audit().Logs(p.Tenant), audit.Log(log)) {
		return 0, nil, &badRequest{"log", auditLogRule}
	}
	return audit.Log(log), params, nil
}

// proofFailure answers that this node's copy is not that long: another node's may be, or this one's in a while.
func proofFailure(ctx context.Context, log audit.Log, rows uint64, err error) error {
	if errors.Is(err, audit.ErrNotNumbered) {
		return behindAt(logName(log), fmt.Sprintf("this node's copy has no %d rows yet", rows))
	}
	return auditFailure(ctx, err)
}

func hexHashes[S ~[]audit.Hash](hashes S) []string {
	out := make([]string, len(hashes))
	for i, h := range hashes {
		out[i] = hex.EncodeToString(h[:])
	}
	return out
}

// auditKinds is GET /v1/audit/kinds: the whole table, for everybody.
func auditKinds(c echo.Context, _ tenants.Principal) error {
	if err := nothingElse(c); err != nil {
		return err
	}
	out := wire.AuditKinds{}
	for _, k := range audit.Kinds() {
		out.Kinds = append(out.Kinds, wire.AuditKind{Kind: k.Name, Meaning: k.Meaning})
	}
	return writeAuditJSON(c, out)
}
