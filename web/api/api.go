package api

import (
	"context"
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

// slack is what an answer may take beyond the time that the request asked to hang, at the leader; a node that passes a
// request on grants forwardSlack more, so that the leader's own answer comes first.
const (
	slack        = 5 * time.Second
	forwardSlack = time.Second
)

// AnswerMax is the longest that any request can take, its body apart. A server's write timeout is to be above it.
const AnswerMax = PollMax + slack + forwardSlack

// Config is what an API is made of.
type Config struct {
	Platform Platform
	// NodeID names this node, in the Stanchion-Leader header and to the nodes it passes requests on to.
	NodeID string
	// Peer marks the API that other nodes pass requests on to: it never passes on again.
	Peer bool
	// InFlightMax bounds a tenant's requests under way in this API: so many in each lane, so that neither waiting requests
	// nor slow ones keep heartbeats out. Zero: 10,000.
	InFlightMax int
	// Limits are the node's own, shared by all its APIs. Nil: this API's own.
	Limits *Limits
	// HoldBack is how long, on average, the answer to a request over the quota is held back, heartbeats and releases apart. Zero: 1 s;
	// below zero: not at all.
	HoldBack time.Duration
}

func (c Config) validate() error {
	switch {
	case c.Platform == nil:
		return errors.New("api: no platform")
	case c.NodeID == "":
		return errors.New("api: no node id")
	case c.InFlightMax < 0:
		return errors.New("api: in-flight limit below zero")
	}
	return nil
}

// API answers the lease API's requests for one listener. Safe for concurrent use.
type API struct {
	platform Platform
	nodeID   string
	peer     bool
	inFlight inFlight
	limits   *Limits
	holdBack time.Duration
	held     inFlight // answers held back
	exports  inFlight
	claims   claims

	// The context is the standard library's register of what to call at Stop; it belongs to no request.
	stopping context.Context
	stop     context.CancelCauseFunc
}

// New makes an API, and refuses a configuration that is not complete. It starts nothing.
func New(c Config) (*API, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.InFlightMax == 0 {
		c.InFlightMax = 10_000
	}
	if c.HoldBack == 0 {
		c.HoldBack = holdBackDefault
	}
	if c.Limits == nil {
		c.Limits = NewLimits(nil)
	}
	stopping, stop := context.WithCancelCause(context.Background())
	return &API{platform: c.Platform, nodeID: c.NodeID, peer: c.Peer, inFlight: inFlight{max: int64(c.InFlightMax)},
		limits: c.Limits, holdBack: c.HoldBack, held: inFlight{max: heldMax}, exports: inFlight{max: exportsMax}, claims: newClaims(), stopping: stopping, stop: stop}, nil
}

// Stop answers every request that hangs, and says from now on that the node is not ready. Requests are still answered;
// polls are told to go elsewhere.
func (a *API) Stop() { a.stop(errStopping) }

// bounded gives an answer its time. A request that may hang is given up when the node stops; others are short, and are
// answered. Call the returned function when the answer is there.
func (a *API) bounded(ctx context.Context, poll time.Duration) (context.Context, func()) {
	if poll == 0 {
		return context.WithTimeout(ctx, a.within(0))
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(a.stopping, func() { giveUp(errStopping) })
	ctx, cancel := context.WithTimeout(ctx, a.within(poll))
	return ctx, func() {
		unhook()
		cancel()
		giveUp(nil)
	}
}

// atLeader answers a request where the tenant's partition is led: by work, if that is here, else by passing the request, with
// its body, on. What work returns is told in the light of why its context ended, a problem apart: that was decided.
func (a *API) atLeader(c echo.Context, tenant lockcore.TenantID, poll time.Duration, body []byte,
	work func(ctx context.Context, here Locks) error) error {
	ctx, done := a.bounded(c.Request().Context(), poll)
	defer done()
	here, elsewhere, err := a.at(c, tenant)
	if err != nil || here == nil {
		return a.passOn(ctx, c, elsewhere, body, err)
	}
	err = work(ctx, here)
	if _, decided := errors.AsType[*wire.Problem](err); err == nil || decided {
		return err
	}
	return a.failure(ctx, c, tenant, err)
}

// within is how long an answer may take to a request that may hang for poll.
func (a *API) within(poll time.Duration) time.Duration {
	if a.peer {
		return poll + slack
	}
	return poll + slack + forwardSlack
}

// failure is a partition's error in the light of why its context ended: a request given up because the node stops is
// answered as that. Where this node leads no more, the answer names who does.
func (a *API) failure(ctx context.Context, c echo.Context, tenant lockcore.TenantID, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStopping):
		return errStopping
	case cause != nil && errors.Is(err, ctx.Err()):
		return cause
	case !errors.Is(err, leader.ErrNotLeader):
		return err
	}
	c.Response().Header().Del(HeaderLeader)
	ref, known := a.platform.Leader(tenant)
	if known && !ref.Self {
		setLeader(c, ref)
	}
	return notLeader(ref, known)
}

// at finds the partition on this node that leads the tenant; elsewhere says which node does, if the request is to be
// passed on to it.
func (a *API) at(c echo.Context, tenant lockcore.TenantID) (here Locks, elsewhere LeaderRef, err error) {
	ref, known := a.platform.Leader(tenant)
	if known {
		setLeader(c, ref)
	}
	locks, carried := a.platform.Locks(tenant)
	switch {
	case known && !ref.Self && !a.peer:
		return nil, ref, nil
	case known && ref.Self && carried:
		return locks, LeaderRef{}, nil
	case !known && !a.peer:
		return nil, LeaderRef{}, wire.NewProblem(wire.CodeNoQuorum, "This node knows no leader of the tenant's partition.")
	}
	return nil, LeaderRef{}, notLeader(ref, known)
}

func notLeader(ref LeaderRef, known bool) *wire.Problem {
	p := wire.NewProblem(wire.CodeNotLeader, "")
	if known && !ref.Self {
		p.Leader = &wire.Leader{Node: ref.NodeID, URL: ref.URL}
	}
	return p
}

// setLeader names the leader in the answer's header, for the client to go there directly next time.
func setLeader(c echo.Context, ref LeaderRef) {
	c.Response().Header()[HeaderLeader] = []string{ref.NodeID + " " + ref.URL}
}
