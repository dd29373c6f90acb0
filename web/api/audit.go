package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

// searchAudit is GET /v1/audit: a page of events, or all of them as a stream. Whichever node is asked answers from its own
// copy, and says what that copy is complete to.
func (a *API) searchAudit(c echo.Context, p tenants.Principal) error {
	if err := noBody(c); err != nil {
		return err
	}
	s, err := a.searchOf(c, p)
	if err != nil {
		return err
	}
	if err := a.reached(c.Request().Context(), s); err != nil {
		return err
	}
	if s.format != formatJSON {
		return a.exportAudit(c, s, p.Tenant)
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	s.Limit = s.rows
	page, err := a.platform.Audit().Query(ctx, s.Query)
	if err != nil {
		return auditFailure(ctx, err)
	}
	return writeAuditJSON(c, auditPage(page))
}

// reached waits until this node's copy has what the request wants to see.
func (a *API) reached(ctx context.Context, s auditSearch) error {
	if s.index == 0 {
		return nil
	}
	bounded, done := a.bounded(ctx, PollMax)
	defer done()
	waiting, cancel := context.WithTimeout(bounded, PollMax)
	defer cancel()
	err := a.platform.Audit().Wait(waiting, s.log, s.index)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(bounded), errStopping):
		return errStopping
	case ctx.Err() != nil:
		return ctx.Err()
	}
	at, err := a.platform.Audit().Checkpoint(bounded, s.log)
	if err != nil {
		return auditFailure(bounded, err)
	}
	return behindAt(logName(s.log), fmt.Sprintf("this node's copy has reached entry %d, not yet entry %d", at.Durable, s.index))
}

// behindAt is the answer of a node whose copy does not reach as far as is asked.
func behindAt(log, why string) *wire.Problem {
	p := wire.NewProblem(wire.CodeNotReady, log+": "+why+".")
	p.Parts = []wire.Part{{Part: "audit of " + log, Why: why}}
	return p
}

// auditFailure is how an error of the store is answered.
func auditFailure(ctx context.Context, err error) error {
	var wrong *audit.QueryError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "cursor":
		return &badRequest{"cursor", searchCursorRule}
	case errors.Is(context.Cause(ctx), errStopping):
		return errStopping
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, audit.ErrBusy):
		return wire.NewProblem(wire.CodeNotReady, "This node's copy of the audit did not answer in time.")
	}
	return err
}

func auditPage(page audit.Page) wire.AuditPage {
	out := wire.AuditPage{Events: make([]wire.AuditEvent, 0, len(page.Rows)), NextCursor: page.Next,
		CompleteTo: completeTo(page.CompleteTo), Gaps: auditGaps(page.Gaps), DroppedBefore: droppedBefore(page)}
	for _, row := range page.Rows {
		out.Events = append(out.Events, auditEvent(row))
	}
	return out
}

// droppedBefore is before when retention has dropped the tenant's events; nil: it has not.
func droppedBefore(page audit.Page) *wire.TimeMS {
	if page.DroppedBefore.IsZero() {
		return nil
	}
	return new(wire.TimeMS(page.DroppedBefore.UnixMilli()))
}

func completeTo(by map[audit.Log]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(by))
	for log, index := range by {
		out[logName(log)] = index
	}
	return out
}

func auditGaps(gaps []audit.Gap) []wire.AuditGap {
	out := make([]wire.AuditGap, 0, len(gaps))
	for _, g := range gaps {
		out = append(out, wire.AuditGap{Log: logName(g.Log), From: g.From, To: g.To, Why: g.Why, Recoverable: !g.Unrecoverable})
	}
	return out
}

// writeAuditJSON writes names as they are: nobody puts this into a page.
func writeAuditJSON(c echo.Context, answer any) error {
	c.Response().Header().Set("Content-Type", typeJSON)
	c.Response().WriteHeader(http.StatusOK)
	e := json.NewEncoder(c.Response())
	e.SetEscapeHTML(false)
	return e.Encode(answer)
}
