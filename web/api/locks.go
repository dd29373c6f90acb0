package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	limitDefault = 100
	limitMax     = 1_000
	// A page shows the first waiters of each lock; asked for one key, it shows more of them.
	waitersOfEach = 10
	waitersOfOne  = 1_000

	cursorBytesMax = 1_024
)

const (
	prefixRule = "must be 1 to 512 bytes without control characters, and not together with `key`"
	limitRule  = "must be a whole number from 1 to 1000"
	cursorRule = "must be the next_cursor of an earlier page of this list"
)

// listLocks is GET /v1/locks: a page of locks in order of class and key.
func (a *API) listLocks(c echo.Context, p tenants.Principal) error {
	if err := noBody(c); err != nil {
		return err
	}
	query, err := lockQuery(c, p)
	if err != nil {
		return err
	}
	return a.atLeader(c, query.Tenant, 0, nil, func(ctx context.Context, here Locks) error {
		page, err := here.List(ctx, query)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, a.lockList(query.Tenant, page))
	})
}

// lockQuery reads the query. Keys are taken as the bytes they decode to.
func lockQuery(c echo.Context, p tenants.Principal) (LockQuery, error) {
	params, err := queryOf(c, "class", "key", "prefix", "limit", "cursor")
	if err != nil {
		return LockQuery{}, err
	}
	q := LockQuery{Tenant: lockcore.TenantID(p.Tenant), Class: lockcore.ClassName(params.Get("class")),
		Key: lockcore.Key(params.Get("key")), Prefix: params.Get("prefix"), Limit: limitDefault, WaitersMax: waitersOfEach,
		Allows: func(class lockcore.ClassName) bool { return mayLook(p, class) }}
	if q.Key != "" {
		q.WaitersMax = waitersOfOne
		q.Limit = 10
	}
	switch {
	case params.Has("class") && !lockcore.ValidName(string(q.Class)):
		return q, &badRequest{"class", classRule}
	case params.Has("key") && !lockcore.ValidKey(string(q.Key)):
		return q, &badRequest{"key", keyRule}
	case params.Has("prefix") && (!validPrefix(q.Prefix) || q.Key != ""):
		return q, &badRequest{"prefix", prefixRule}
	case q.Class != "" && !q.Allows(q.Class):
		return q, forbidden(tenants.Scope{Verb: tenants.VerbLocks, Classes: string(q.Class)})
	}
	return q, q.page(params)
}

// validPrefix reports whether a key can begin with these bytes; they may end within a character.
func validPrefix(prefix string) bool {
	return prefix != "" && len(prefix) <= lockcore.KeyBytesMax && !strings.ContainsFunc(prefix, func(r rune) bool {
		return r < 0x20 || r == 0x7f
	})
}

// page reads where the page begins and how long it is.
func (q *LockQuery) page(params url.Values) error {
	if params.Has("limit") {
		text := params.Get("limit")
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > limitMax || strconv.Itoa(n) != text {
			return &badRequest{"limit", limitRule}
		}
		q.Limit = n
		if q.Key != "" {
			q.Limit = min(n, 10)
		}
	}
	if params.Has("cursor") {
		from, ok := parseCursor(params.Get("cursor"))
		if !ok {
			return &badRequest{"cursor", cursorRule}
		}
		q.From = from
	}
	return nil
}

// cursor names a position without promising anything about its form.
func cursor(at LockPosition) string {
	if at == (LockPosition{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(string(at.Class) + "\x00" + string(at.Key)))
}

func parseCursor(text string) (LockPosition, bool) {
	if len(text) > cursorBytesMax {
		return LockPosition{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	class, key, split := strings.Cut(string(raw), "\x00")
	if err != nil || !split || !lockcore.ValidName(class) || key != "" && !lockcore.ValidKey(key) {
		return LockPosition{}, false
	}
	return LockPosition{Class: lockcore.ClassName(class), Key: lockcore.Key(key)}, true
}

func (a *API) lockList(tenant lockcore.TenantID, page LockPage) wire.LockList {
	list := wire.LockList{Locks: make([]wire.Lock, 0, len(page.Locks)), NextCursor: cursor(page.Next), CompleteTo: page.Index}
	for _, state := range page.Locks {
		list.Locks = append(list.Locks, a.lock(tenant, state))
	}
	return list
}

func (a *API) lock(tenant lockcore.TenantID, state LockState) wire.Lock {
	out := wire.Lock{Class: string(state.Class), Key: string(state.Key), Waiters: make([]wire.Waiter, 0, len(state.Waiting)),
		WaitersTotal: state.Waiters, HighestToken: uint64(state.DelayToken)}
	if state.DelayToken != 0 {
		out.Delay = &wire.Delay{Token: uint64(state.DelayToken),
			Length: wire.Duration(time.Duration(state.DelayMS) * time.Millisecond)}
	}
	if h := state.Holder; h != nil {
		out.HighestToken = max(out.HighestToken, uint64(h.Token))
		out.Holder = a.holder(tenant, h, state.LastHeartbeat)
	}
	for i, w := range state.Waiting {
		out.Waiters = append(out.Waiters, wire.Waiter{Position: i + 1, Label: w.Holder,
			APIKey: a.platform.KeyName(tenant, w.APIKey), Since: wallTime(w.AtMS)})
	}
	return out
}

func (a *API) holder(tenant lockcore.TenantID, l *lockcore.Lease, lastHeartbeat time.Time) *wire.Holder {
	h := &wire.Holder{Label: l.Holder, APIKey: a.platform.KeyName(tenant, l.APIKey), Since: wallTime(l.AtMS),
		Token: uint64(l.Token), Epoch: uint64(l.Epoch), PostureVersion: l.Version}
	if !lastHeartbeat.IsZero() {
		h.LastHeartbeat = new(lastHeartbeat.UTC())
	}
	if l.Ending != 0 {
		h.Ending = l.Ending.String()
	}
	return h
}

func wallTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
