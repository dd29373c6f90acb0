package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
	"github.com/stanchion-locks/stanchion/tenants"
)

// heartbeat is POST /v1/sessions/{session}/heartbeat: keep the leases named.
func (a *API) heartbeat(c echo.Context, p tenants.Principal) error {
	session, err := sessionID(c)
	if err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := readJSON(c, heartbeatBodyBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	sequences, err := decodeHeartbeat(body.b)
	if err != nil {
		return err
	}
	return a.atLeader(c, lockcore.TenantID(p.Tenant), 0, body.b, func(ctx context.Context, here Locks) error {
		answer, err := here.Heartbeat(ctx, leader.Heartbeat{Caller: caller(p), Session: session, Sequences: sequences})
		if err != nil {
			return err
		}
		return writeJSON(c, http.StatusOK, heartbeatAnswer(session, answer))
	})
}

// endSession is DELETE /v1/sessions/{session}: release all that it holds.
func (a *API) endSession(c echo.Context, p tenants.Principal) error {
	session, err := sessionID(c)
	if err != nil {
		return err
	}
	if err := nothingElse(c); err != nil {
		return err
	}
	return a.atLeader(c, lockcore.TenantID(p.Tenant), 0, nil, func(ctx context.Context, here Locks) error {
		if err := here.EndSession(ctx, leader.EndSession{Caller: caller(p), Session: session}); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, wire.SessionEnd{Session: session.String(), State: wire.StateEnded})
	})
}
