package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	// exportPage is how many events are read at a time: memory of an export does not grow with its length.
	exportPage = 500
	// exportsMax bounds a tenant's exports under way at this node: each is a reader of the store for as long as it lasts.
	exportsMax = 4
	// exportGapsMax bounds the gaps that a trailer lists.
	exportGapsMax = 1000
)

// export is one stream of events.
type export struct {
	a           *API
	search      auditSearch
	form        exportForm
	trailer     wire.AuditTrailer
	checkpoints map[audit.Log]audit.Position // when it began
}

// exportAudit streams every event that matches, page by page, and ends with a trailer.
func (a *API) exportAudit(c echo.Context, s auditSearch, tenant tenants.TenantID) error {
	ctx := c.Request().Context()
	under := a.exports.enter(lockcore.TenantID(tenant), LaneOther)
	if under == nil {
		return wire.NewProblem(wire.CodeOverloaded, "As many exports of the tenant are under way at this node as may be.")
	}
	defer under.Add(-1)
	connection := http.NewResponseController(c.Response().Writer)
	// A read deadline that passes would cancel the request, however long it rightly takes; there is nothing more to read.
	if err := connection.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("begin an export: %w", err)
	}
	e := &export{a: a, search: s, checkpoints: map[audit.Log]audit.Position{}}
	if err := e.begin(ctx); err != nil {
		return err
	}
	page, err := e.read(ctx) // before the first byte: what fails here is answered as any failure is
	if err != nil {
		return err
	}
	e.form = newExportForm(s.format, &exportWriter{to: c.Response(), connection: connection})
	c.Response().Header().Set("Content-Type", e.form.contentType())
	c.Response().WriteHeader(http.StatusOK)
	if err := e.stream(ctx, page); err != nil {
		return e.broken(ctx, err)
	}
	return e.form.end(e.trailer)
}

// begin notes what the logs' rows are, which is what proofs lead to.
func (e *export) begin(ctx context.Context) error {
	e.trailer.Checkpoints = []wire.AuditCheckpoint{}
	for _, log := range e.search.Logs {
		at, err := e.a.platform.Audit().Checkpoint(ctx, log)
		if err != nil {
			return auditFailure(ctx, err)
		}
		e.checkpoints[log] = at
		e.trailer.Checkpoints = append(e.trailer.Checkpoints, checkpoint(log, at))
	}
	return nil
}

// read reads the next page.
func (e *export) read(ctx context.Context) (audit.Page, error) {
	e.search.Limit = min(exportPage, e.search.rows-int(e.trailer.Rows))
	page, err := e.a.platform.Audit().Query(ctx, e.search.Query)
	if err != nil {
		return audit.Page{}, auditFailure(ctx, err)
	}
	e.note(page)
	return page, nil
}

// note keeps what the pages say about themselves: the first knows least, and a gap that one of them had is one of the
// export's.
func (e *export) note(page audit.Page) {
	if e.trailer.CompleteTo == nil {
		e.trailer.CompleteTo = completeTo(page.CompleteTo)
		e.trailer.Gaps = []wire.AuditGap{}
		for log, at := range e.checkpoints {
			if e.search.proofs { // what came after the checkpoints is left out
				e.trailer.CompleteTo[logName(log)] = at.Complete
			}
		}
	}
	if dropped := droppedBefore(page); dropped != nil {
		e.trailer.DroppedBefore = dropped
	}
	for _, g := range auditGaps(page.Gaps) {
		if len(e.trailer.Gaps) < exportGapsMax && !containsGap(e.trailer.Gaps, g) {
			e.trailer.Gaps = append(e.trailer.Gaps, g)
		}
	}
}

func containsGap(all []wire.AuditGap, g wire.AuditGap) bool {
	for _, known := range all {
		if known.Log == g.Log && known.From == g.From && known.To == g.To {
			return true
		}
	}
	return false
}

// stream writes page after page, until the last, or as many events as one export has, or until the node stops.
func (e *export) stream(ctx context.Context, page audit.Page) error {
	for {
		for _, row := range page.Rows {
			if err := e.write(ctx, row); err != nil {
				return err
			}
		}
		if err := e.form.flush(); err != nil {
			return err
		}
		e.search.Cursor = page.Next
		done := page.Next == "" || int(e.trailer.Rows) >= e.search.rows
		if done || e.a.stopping.Err() != nil {
			e.trailer.NextCursor = page.Next
			return nil
		}
		var err error
		if page, err = e.read(ctx); err != nil {
			return err
		}
	}
}

// write adds an event. An export with proofs ends at the checkpoints that the proofs lead to: a row that came after them
// is left to the next export.
func (e *export) write(ctx context.Context, row audit.Row) error {
	event := auditEvent(row)
	if e.search.proofs {
		at := e.checkpoints[row.Position.Log]
		if row.Leaf != nil && *row.Leaf >= at.Rows {
			return nil
		}
		proof, err := e.proof(ctx, row, at)
		if err != nil {
			return err
		}
		event.Proof = proof
	}
	e.trailer.Rows++
	return e.form.event(event)
}

// proof is what shows that a row is in its log.
func (e *export) proof(ctx context.Context, row audit.Row, at audit.Position) (*wire.AuditEventProof, error) {
	proof := eventProof(row)
	if row.Leaf == nil {
		return proof, nil
	}
	hashes, err := e.a.platform.Audit().ProveRow(ctx, row.Position.Log, *row.Leaf, at.Rows)
	if err != nil {
		return nil, auditFailure(ctx, err)
	}
	proof.Inclusion = hexHashes(hashes)
	return proof, nil
}

// broken ends a stream that cannot go on with what went wrong, in place of a trailer.
func (e *export) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil // the client went; nobody reads on
	}
	problem, _ := ProblemOf(err)
	_ = e.form.failed(problem) // a client that is told nothing misses the trailer all the same
	return err
}
