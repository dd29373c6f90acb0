package api

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
)

// buffer is a reusable piece of memory for one body. Oversized ones are not kept.
type buffer struct{ b []byte }

const bufferBytesKept = 256 << 10

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 2048)} }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) release() {
	if cap(b.b) <= bufferBytesKept {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// stateByStatus is how an answer's status is published. A refusal that used its id up is an ended request.
var stateByStatus = map[leader.Status]wire.State{
	leader.StatusGranted: wire.StateGranted,
	leader.StatusQueued:  wire.StateQueued,
	leader.StatusEnding:  wire.StateEnding,
	leader.StatusEnded:   wire.StateEnded,
	leader.StatusRefused: wire.StateEnded,
}

// lease is an answer as it is published.
func (a *API) lease(id lockcore.LeaseID, answer leader.Answer) wire.Lease {
	out := wire.Lease{LeaseID: id.String(), State: stateByStatus[answer.Status], Index: answer.Index,
		ContactWithin: wire.Duration(max(answer.ContactWithin, 0)), Position: answer.Position}
	if answer.Reason != 0 {
		out.Reason = answer.Reason.String()
	}
	l := answer.Lease
	if l == nil {
		return out
	}
	out.Class, out.Key, out.Holder = string(l.Class), string(l.Key), l.Holder
	switch answer.Status {
	case leader.StatusQueued: // also of a hand-off that is still to be picked up, whose token is not told yet
	case leader.StatusGranted, leader.StatusEnding:
		out.Token, out.Epoch, out.PostureVersion = uint64(l.Token), uint64(l.Epoch), l.Version
		out.Claim, out.Protected = a.claim(l.Purpose, l.Enforcement), true
		out.UseWithin = wire.Duration(max(answer.UseWithin, 0))
	default:
		out.Token = uint64(l.Token)
	}
	return out
}

func heartbeatAnswer(session lockcore.SessionID, answer leader.HeartbeatAnswer) wire.HeartbeatAnswer {
	out := wire.HeartbeatAnswer{Session: session.String(), Index: answer.Index,
		Held: make([]wire.Held, 0, len(answer.Held)), Lost: make([]wire.Lost, 0, len(answer.Lost))}
	for _, h := range answer.Held {
		if h.Lease == nil {
			continue // a hold without a lease is none; the client asks again
		}
		out.Held = append(out.Held, wire.Held{LeaseID: h.Lease.ID.String(), Token: uint64(h.Lease.Token),
			UseWithin: wire.Duration(max(h.UseWithin, 0)), ContactWithin: wire.Duration(max(h.ContactWithin, 0))})
	}
	for _, l := range answer.Lost {
		out.Lost = append(out.Lost, wire.Lost{LeaseID: l.Lease.String(), Code: codeOf(l.Reason),
			Reason: l.Reason.String(), Ending: l.Ending, Token: uint64(l.Token)})
	}
	return out
}

// appender is an answer that writes itself as JSON.
type appender interface{ AppendJSON([]byte) []byte }

// writeJSON sends an answer, whole.
func writeJSON[A appender](c echo.Context, status int, answer A) error {
	buf := newBuffer()
	defer buf.release()
	buf.b = append(answer.AppendJSON(buf.b), '\n')
	return c.Blob(status, typeJSON, buf.b)
}

// writeLease answers a request for a hold.
func (a *API) writeLease(c echo.Context, id lockcore.LeaseID, answer leader.Answer) error {
	l := a.lease(id, answer)
	switch answer.Status {
	case leader.StatusGranted:
		return writeJSON(c, http.StatusOK, l)
	case leader.StatusQueued:
		return writeJSON(c, http.StatusAccepted, l)
	}
	return a.refused(answer, l)
}

// WriteProblem sends a problem, with the request's id in it.
func (a *API) WriteProblem(c echo.Context, p *wire.Problem) error {
	out := *p
	out.RequestID = c.Response().Header().Get(HeaderRequestID)
	if out.RequestID != "" {
		out.Instance = "urn:stanchion:request:" + out.RequestID
	}
	if kind, ok := wire.KindOf(out.Code); ok && kind.RetryAfterSecsMax > 0 {
		c.Response().Header().Set("Retry-After", retryAfter(kind.RetryAfterSecsMax))
	}
	body, err := json.Marshal(&out)
	if err != nil {
		return err
	}
	return c.Blob(out.Status, typeProblem, append(body, '\n'))
}
