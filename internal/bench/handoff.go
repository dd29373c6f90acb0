package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// HandoffClientsMax is how many clients may stand in one line.
const HandoffClientsMax = 1000

// HandoffOptions say how hand-offs are measured.
type HandoffOptions struct {
	Clients int // in one line; 2 .. HandoffClientsMax
}

// HandoffRow is what was measured of hand-offs: all clients want one key, each gives it back as soon as it has it, and asks again.
type HandoffRow struct {
	Clients          int     `json:"clients"`
	Seconds          float64 `json:"seconds"`
	Holders          int64   `json:"holders"` // hand-offs
	HoldersPerSecond float64 `json:"holders_per_second"`
	// Handoff is from before the release is sent to when the next holder has read its grant, both in this process.
	Handoff       Latency  `json:"handoff"`
	HoldersAtOnce int      `json:"holders_at_once"` // most; more than one is an error
	ServerCores   *float64 `json:"server_cpu_cores"`
	ServerPerHold *float64 `json:"server_cpu_us_per_holder"`
	ClientCores   float64  `json:"client_cpu_cores"`
}

// ErrTwoHolders is returned when two clients held the key at once.
var ErrTwoHolders = errors.New("two held the key at once; this must never be: keep the nodes' data and report it")

// ErrTokens is returned when a grant's fencing token was not above the one before it.
var ErrTokens = errors.New("a fencing token did not grow; this must never be: keep the nodes' data and report it")

// Handoff measures hand-offs. Errors: ErrRange, ErrRestarted, ErrTwoHolders, ErrTokens, and what the cluster answered.
func Handoff(ctx context.Context, c Config, o HandoffOptions) (report Report[HandoffRow], err error) {
	if err := errors.Join(c.validate(), inRange("clients", o.Clients, 2, HandoffClientsMax)); err != nil {
		return report, err
	}
	r, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = r.finish(ctx, err) }()
	report = newReport[HandoffRow]("handoff", r)
	l := &handoffLoad{run: r, line: line{handoff: newRecorder()}}
	l.body = acquireBody(c.Class, "bench-"+r.id+"-handoff", nil)
	var w window
	err = load(ctx, o.Clients, l.client, func(ctx context.Context) (err error) {
		w, err = r.open(ctx, fmt.Sprintf("hand-off, %d clients", o.Clients))
		return err
	})
	if err != nil {
		return report, err
	}
	report.Rows = append(report.Rows, l.row(o.Clients, w))
	return report, nil
}

// handoffLoad is one line of clients for a key.
type handoffLoad struct {
	*run
	body []byte
	line line
}

func (l *handoffLoad) row(clients int, w window) HandoffRow {
	row := HandoffRow{Clients: clients, Seconds: w.took.Seconds(), Handoff: l.line.handoff.latency(), HoldersAtOnce: l.line.atOnce(),
		ServerCores: w.cores, ClientCores: w.clientCores}
	row.Holders = row.Handoff.Count
	row.HoldersPerSecond = w.perSecond(row.Holders)
	row.ServerPerHold = perUnit(w.cores, row.HoldersPerSecond)
	return row
}

// client stands in line, gives the key back and stands in line again. When running ends it leaves: its session is ended
// afterwards, and its place with it.
func (l *handoffLoad) client(_, running context.Context, _ int) error {
	c := l.conn()
	defer c.close()
	p := newLeaseRequests(l.session())
	for running.Err() == nil {
		path := p.next()
		grant, err := c.await(running, path, l.body)
		if err == nil {
			err = l.line.enter(grant, l.counts.Load())
		}
		if err == nil {
			l.line.leave(grant)
			err = c.want(running, http.MethodDelete, path, nil)
		}
		if err != nil && running.Err() == nil {
			return fmt.Errorf("hand-off: %w", err)
		}
	}
	return nil
}

// grant is what a client knows of its hold.
type grant struct {
	token uint64
	at    time.Time // when it knew
	until time.Time // by its own clock: from then on it does not count on it
}

// await asks for a lease until it is granted. Each poll ends when the platform answers, and the whole with ctx.
func (c *conn) await(ctx context.Context, path string, body []byte) (grant, error) {
	for {
		sent := time.Now()
		status, answer, err := c.call(ctx, http.MethodPut, path, body)
		switch {
		case err != nil:
			return grant{}, err
		case status == http.StatusAccepted:
			continue
		case status != http.StatusOK:
			return grant{}, failure(status, answer)
		}
		known := time.Now()
		l, err := readLease(answer)
		return grant{token: l.Token, at: known, until: sent.Add(l.UseWithin.Std())}, err
	}
}

// granted is what is read of a grant.
type granted struct {
	Token         uint64        `json:"token"`
	UseWithin     wire.Duration `json:"use_within"`
	ContactWithin wire.Duration `json:"contact_within"`
}

func readLease(answer []byte) (l granted, err error) {
	if err := json.Unmarshal(answer, &l); err != nil {
		return l, fmt.Errorf("the answer is no lease: %w", err)
	}
	return l, nil
}

// line watches who holds the key. Safe for concurrent use.
type line struct {
	handoff *recorder

	mu       sync.Mutex
	holder   grant     // guarded by mu; who is inside, or was last
	inside   bool      // guarded by mu; the holder has not left
	released time.Time // guarded by mu; when the last one left
	most     int       // guarded by mu
}

// enter is called by a client that has read its grant. It records the time since the holder before it left, if that counts.
// A holder whose deadline has passed is no longer one, whether it left or not.
func (l *line) enter(g grant, counts bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !time.Now().Before(g.until):
		return errLate
	case g.token <= l.holder.token:
		return fmt.Errorf("%w: %d after %d", ErrTokens, g.token, l.holder.token)
	case l.inside && g.at.Before(l.holder.until):
		return fmt.Errorf("%w: tokens %d and %d", ErrTwoHolders, l.holder.token, g.token)
	case counts && !l.released.IsZero():
		l.handoff.record(g.at.Sub(l.released))
	}
	l.holder, l.inside, l.most = g, true, 1
	return nil
}

// errLate is returned by a client that could not run for as long as its lease lasts, so that nothing can be said of who held.
var errLate = error(&Failure{Err: errors.New("a lease was over before its holder ran again: this machine is overloaded"),
	Remedy: "take fewer --clients"})

// leave is called before the release is sent.
func (l *line) leave(g grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder.token == g.token {
		l.inside, l.released = false, time.Now()
	}
}

func (l *line) atOnce() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

func (HandoffRow) header() []string {
	return []string{"clients", "holders/s", "hand-off p50", "p90", "p99", "p99.9", "max", "at once", "server cores", "server µs/holder",
		"client cores"}
}

func (h HandoffRow) cells() []string {
	l := h.Handoff
	return []string{number(h.Clients), decimal(h.HoldersPerSecond, 0), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max),
		number(h.HoldersAtOnce), measured(h.ServerCores, 2), measured(h.ServerPerHold, 0), decimal(h.ClientCores, 2)}
}
