package client

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/stanchion-locks/stanchion/client/deadline"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// Option changes how a client works. All have good defaults.
type Option func(*config)

type config struct {
	holder    string
	tls       *tls.Config
	transport http.RoundTripper // nil: one of the client's own
	clock     deadline.Clock
	log       *slog.Logger
}

// WithHolder sets the label, at most 128 bytes, by which people see this client in lists and in the audit. The default is the
// machine's name and the process id, like "worker-7:4121".
func WithHolder(label string) Option { return func(c *config) { c.holder = label } }

// WithTLS sets how to speak to https endpoints: a private authority, a client certificate.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithTransport sends requests by t, which the caller owns. It must not repeat or cache requests; the default keeps a
// connection for each request that is under way, so that none waits behind one that hangs.
func WithTransport(t http.RoundTripper) Option { return func(c *config) { c.transport = t } }

// WithClock reads time from clock, for tests and simulators. The default is the machine's clocks.
func WithClock(clock deadline.Clock) Option { return func(c *config) { c.clock = clock } }

// WithLogger logs doubt, loss and releases that failed. The default logs nothing.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

func newConfig(opts []Option) (config, error) {
	c := config{holder: defaultHolder(), clock: deadline.System(), log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(&c)
	}
	if len(c.holder) > holderBytesMax {
		return c, fmt.Errorf("stanchion: a holder's label has at most %d bytes, not %d", holderBytesMax, len(c.holder))
	}
	return c, nil
}

const holderBytesMax = 128

func defaultHolder() string {
	process := fmt.Sprintf(":%d", os.Getpid())
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine[:min(len(machine), holderBytesMax-len(process))] + process
}

// Unlimited lets a request queue without end, where its class allows that.
const Unlimited = time.Duration(wire.Unlimited)

// AcquireOption changes one request for a lease.
type AcquireOption func(*asking)

// Wait is how long to queue: 0 tries once, Unlimited is without end where the class allows it; otherwise whole milliseconds up to 24 h and
// the class's max_wait. The default is as long as the class allows.
func Wait(d time.Duration) AcquireOption {
	return func(a *asking) { a.wait = &d }
}

// Holder is WithHolder for one lease.
func Holder(label string) AcquireOption { return func(a *asking) { a.holder = label } }

// Place is where a request stands in line.
type Place struct {
	Position int // from 1
}

// OnQueued calls f when the request is in line, and whenever its place has changed, from the goroutine that asks.
func OnQueued(f func(Place)) AcquireOption { return func(a *asking) { a.onQueued = f } }
