package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// forceRelease is POST /v1/locks/force-release: end somebody's hold. Repeating it is the same: it names the hold by token.
func (a *API) forceRelease(c echo.Context, p tenants.Principal) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	f, err := decodeForce(body.b)
	if err != nil {
		return err
	}
	f.tenant, f.by = lockcore.TenantID(p.Tenant), string(p.KeyID)
	return a.atLeader(c, f.tenant, 0, body.b, func(ctx context.Context, here Locks) error {
		answer, err := f.end(ctx, here)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, answer)
	})
}

// force is one hold to end.
type force struct {
	tenant lockcore.TenantID
	by     string // id of the API key
	class  lockcore.ClassName
	key    lockcore.Key
	token  lockcore.Token
	reason string
	now    bool
}

var forceFields = []string{"class", "key", "token", "reason", "now"}

const (
	holdTokenRule   = "must be the token of the hold to end: a whole number from 1 to 2^53-1"
	forceReasonRule = "must say why, in 1 to 1024 bytes of UTF-8 without control characters"
	nowRule         = "must be true or false"
)

func decodeForce(body []byte) (force, error) {
	var f force
	s := scanner{data: body}
	err := s.object(forceFields, func(field int) error { return decodeForceField(&s, &f, field) })
	switch {
	case err != nil:
		return force{}, err
	case f.class == "":
		return force{}, &badRequest{"class", "is missing; it " + classRule}
	case f.key == "":
		return force{}, &badRequest{"key", "is missing; it " + keyRule}
	case f.token == 0:
		return force{}, &badRequest{"token", "is missing; it " + holdTokenRule}
	case f.reason == "":
		return force{}, &badRequest{"reason", "is missing; it " + forceReasonRule}
	}
	return f, nil
}

func decodeForceField(s *scanner, f *force, field int) error {
	switch name := forceFields[field]; name {
	case "class":
		text, err := s.text()
		f.class = lockcore.ClassName(text)
		return unless(err == nil && lockcore.ValidName(text), name, classRule)
	case "key":
		text, err := s.text()
		f.key = lockcore.Key(text)
		return unless(err == nil && lockcore.ValidKey(text), name, keyRule)
	case "token":
		n, ok := s.whole()
		f.token = lockcore.Token(n)
		return unless(ok && n <= lockcore.SequenceMax, name, holdTokenRule)
	case "reason":
		text, err := s.text()
		f.reason = text
		return unless(err == nil && validReason(text), name, forceReasonRule)
	default: // now
		now, ok := s.boolean()
		f.now = now
		return unless(ok, name, nowRule)
	}
}

// validReason reports whether text may stand in the audit as a person's reason.
func validReason(text string) bool {
	return text != "" && len(text) <= lockcore.NoteBytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// end finds the hold, and ends it if it is the one named. The answer says how it stands by the log entry that ended it: a
// hold that goes on is never answered as ended.
func (f force) end(ctx context.Context, at Locks) (wire.ForceRelease, error) {
	holder, err := f.holder(ctx, at)
	if err != nil {
		return wire.ForceRelease{}, err
	}
	result, err := at.Command(ctx, lockcore.MarkEnding{Tenant: f.tenant, Lease: holder.ID, Token: holder.Token,
		Cause: lockcore.Forced, By: f.by, Note: f.reason, Now: f.now})
	switch {
	case err != nil:
		return wire.ForceRelease{}, err
	case result.Outcome == lockcore.Ended:
		return f.answer(holder, wire.StateEnded), nil
	case result.Outcome == lockcore.Done, result.Reason == lockcore.RefusedEnding: // now, or before
		return f.answer(holder, wire.StateEnding), nil
	case result.Reason == lockcore.RefusedStaleEpoch:
		return wire.ForceRelease{}, leader.ErrNotLeader
	case result.Reason == lockcore.RefusedEnded, result.Reason == lockcore.RefusedUnknown:
		return wire.ForceRelease{}, notHeld(lockcore.Lock{}, f.token) // it ended by itself meanwhile
	}
	return wire.ForceRelease{}, fmt.Errorf("end the hold with token %d: refused: %s", f.token, result.Reason)
}

// holder finds who holds the key with the token named; else the problem says who does.
func (f force) holder(ctx context.Context, at Locks) (*lockcore.Lease, error) {
	page, err := at.List(ctx, LockQuery{Tenant: f.tenant, Class: f.class, Key: f.key, Limit: 1})
	if err != nil {
		return nil, err
	}
	for _, lock := range page.Locks {
		switch {
		case lock.Class != f.class || lock.Key != f.key:
		case lock.Holder == nil:
			return nil, notHeld(lock.Lock, f.token)
		case lock.Holder.Token != f.token:
			return nil, otherHolder(lock.Holder, f.token)
		default:
			return lock.Holder, nil
		}
	}
	return nil, notHeld(lockcore.Lock{}, f.token)
}

func notHeld(lock lockcore.Lock, token lockcore.Token) *wire.Problem {
	detail := "Nobody holds the key."
	if lock.DelayToken != 0 {
		detail = fmt.Sprintf("Nobody holds the key; it is in the lock delay after the hold with token %d, which is over.",
			lock.DelayToken)
	}
	return wire.NewProblem(wire.CodeNotHeld, fmt.Sprintf("%s If there was a hold with token %d, it is over.", detail, token))
}

func otherHolder(holder *lockcore.Lease, token lockcore.Token) *wire.Problem {
	p := wire.NewProblem(wire.CodeStaleToken, fmt.Sprintf("The key is held by %s with token %d, not %d.",
		wire.Shown(holder.Holder), holder.Token, token))
	p.Reason = lockcore.RefusedStaleToken.String()
	return p
}

func (f force) answer(holder *lockcore.Lease, state wire.State) wire.ForceRelease {
	return wire.ForceRelease{Class: string(f.class), Key: string(f.key), Token: uint64(holder.Token), State: state,
		Now: f.now, What: whatFollows(holder, state)}
}

// whatFollows says what happens after the command, and what does not.
func whatFollows(holder *lockcore.Lease, state wire.State) string {
	delay := ""
	if holder.LockDelayMS > 0 {
		delay = " the lock delay of " + wire.Duration(time.Duration(holder.LockDelayMS)*time.Millisecond).String() + " has passed"
	}
	stops := " A holder that is paused or cut off is not stopped by this, and no guard is declared that would refuse it."
	if holder.Enforcement == lockcore.EnforcementFenced {
		stops = " A holder that is paused or cut off is not stopped by this: the guard refuses it once a newer token has entered " +
			"the resource."
	}
	if state == wire.StateEnded {
		if delay != "" {
			delay = " once" + delay
		}
		return "The hold is over and the key is granted to whoever is next" + delay +
			", though the holder may be at work still: it is told at its next heartbeat." + stops
	}
	if delay != "" {
		delay = " and" + delay
	}
	return "The holder is told at its next heartbeat. The key is granted again when the holder has released it, or when its " +
		"lease has run out" + delay + "." + stops
}
