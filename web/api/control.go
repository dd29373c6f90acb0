package api

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
)

// Control is the control log as this node sees it. Safe for concurrent use.
type Control interface {
	// ControlLeader is who leads the control group, as far as this node knows; a hint.
	ControlLeader() (LeaderRef, bool)
	// Control puts a command into the control log. A command that breaks a rule is no error: the result says so. Errors:
	// leader.ErrNotLeader, leader.ErrUnknownOutcome.
	Control(context.Context, control.Entry) (control.Result, error)
	// ReadControl lets f read the control log's machine with everything in it that was committed before the call. f must be
	// short and must not keep the machine. Errors: leader.ErrNotLeader, leader.ErrNoQuorum, and the context's own.
	ReadControl(ctx context.Context, f func(*control.Machine)) error
	// ViewControl lets f read the machine as this node has applied it.
	ViewControl(f func(*control.Machine))
}

// atControl says whether this node leads the control group, or which node does, if the request is to be passed on to it.
func (a *API) atControl(c echo.Context) (here bool, elsewhere LeaderRef, err error) {
	ref, known := a.platform.ControlLeader()
	switch {
	case known && ref.Self:
		return true, LeaderRef{}, nil
	case known && !a.peer:
		return false, ref, nil
	case !known && !a.peer:
		return false, LeaderRef{}, wire.NewProblem(wire.CodeNoQuorum, "This node knows no leader of the control group.")
	}
	p := wire.NewProblem(wire.CodeNotLeader, "This node does not lead the control group; nothing was done.")
	if known {
		p.Leader = &wire.Leader{Node: ref.NodeID, URL: ref.URL}
	}
	return false, LeaderRef{}, p
}
