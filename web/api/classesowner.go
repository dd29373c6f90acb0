package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

var transferFields = []string{"from", "to", "reason"}

const (
	groupRule = "must be the name of a group, without group: before it"
	goneRule  = "must be the group whose signature the next version needs"
)

// transferOwner is POST /v1/tenants/{tenant}/classes/{class}/transfer-owner: an operator puts another group in the place of
// one that is gone. It signs nothing.
func (a *API) transferOwner(c echo.Context, p tenants.Principal) error {
	tenant, err := tenantOf(c)
	if err != nil {
		return err
	}
	class, err := classOf(c)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	command, err := decodeTransfer(body.b)
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, body.b, err)
	}
	command.Tenant, command.Class = review.TenantID(tenant), class
	command.By, command.AtMS = control.AuthorOf(p), time.Now().UnixMilli()
	r, err := a.platform.Control(ctx, control.Entry{Review: command})
	switch {
	case err != nil:
		return err
	case !r.OK:
		return transferRefused(r, class)
	}
	var after review.Class
	a.platform.ViewControl(func(m *control.Machine) { after, _ = m.Class(tenant, class) })
	return writePlain(c, http.StatusOK, classView(after, a.inForce(after)))
}

func decodeTransfer(body []byte) (review.TransferOwner, error) {
	var t review.TransferOwner
	s := scanner{data: body}
	err := s.object(transferFields, func(field int) error {
		text, err := s.text()
		switch name := transferFields[field]; name {
		case "from":
			t.From = review.Group(text)
			return unless(err == nil && text != "", name, groupRule)
		case "to":
			t.To = review.Group(text)
			return unless(err == nil && text != "", name, groupRule)
		default:
			t.Reason = text
			return unless(err == nil && text != "", name, reasonRule)
		}
	})
	switch {
	case err != nil:
		return t, err
	case t.From == "":
		return t, &badRequest{"from", "is missing; it " + goneRule}
	case t.To == "":
		return t, &badRequest{"to", "is missing; it " + groupRule}
	case t.Reason == "":
		return t, &badRequest{"reason", "is missing; it " + reasonRule}
	}
	return t, nil
}

func transferRefused(r control.Result, class review.ClassName) error {
	switch r.Reason {
	case string(review.RefusedNotOwner):
		return &badRequest{"from", goneRule}
	case string(review.RefusedInvalid):
		return &badRequest{"", "the groups must be two, and groups and reason without hidden characters"}
	case control.RefusedOwnerStays:
		return wire.NewProblem(wire.CodeOwnerGroupStays, "")
	case control.RefusedForbidden:
		return forbidden(tenants.Scope{Verb: tenants.VerbOperatePlatform})
	}
	return classRefused(r, class)
}
