package bench

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// target is the node that leads one tenant's partition, and what it was asked for. Safe for concurrent use.
type target struct {
	endpoints []string
	key       string
	baseTLS   *tls.Config

	// Set by findLeader, before anything else is asked.
	base    string // as in http://host:port
	address string // host:port
	prefix  string // of every path
	headers []byte // the rest of a request's first line, and the headers that all requests have
	https   bool
	tls     *tls.Config

	id string // tells the keys of this run from all others

	mu       sync.Mutex
	sessions []string // guarded by mu; begun and not ended
}

const (
	enders  = 32               // connections that end sessions at the end
	endTime = 60 * time.Second // for all of them
)

// ErrNotGivenBack is returned when sessions could not be ended after a measurement. What they hold runs out by itself.
var ErrNotGivenBack = errors.New("not all that was held could be given back, and runs out by itself")

// newTarget finds the leader of the API key's tenant.
func newTarget(ctx context.Context, endpoints []string, key string, secure *tls.Config) (*target, error) {
	if strings.ContainsAny(key, "\r\n ") {
		return nil, &Failure{Err: errors.New("the API key has spaces or line ends in it"), Remedy: "copy it again, alone"}
	}
	t := &target{endpoints: endpoints, key: key, baseTLS: secure, id: randomHex(4)}
	return t, t.follow(ctx)
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// aim makes a node's address the one that is asked.
func (t *target) aim(base string) error {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%w: %q is no address like http://host:port", ErrRange, base)
	}
	t.base, t.prefix, t.https = u.String(), u.EscapedPath(), u.Scheme == "https"
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	t.headers = fmt.Appendf(nil, " HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", u.Host, t.key)
	t.tls = new(tls.Config)
	if t.baseTLS != nil {
		t.tls = t.baseTLS.Clone()
	}
	if t.tls.ServerName == "" {
		t.tls.ServerName = u.Hostname()
	}
	t.tls.NextProtos = []string{"http/1.1"}
	return nil
}

// leader asks the endpoints in turn for the address of the node that leads.
func (t *target) leader(ctx context.Context) (string, error) {
	var errs []error
	for _, e := range t.endpoints {
		asked := &target{endpoints: t.endpoints, key: t.key, baseTLS: t.baseTLS}
		if err := asked.aim(e); err != nil {
			return "", err
		}
		leader, err := asked.whoLeads(ctx)
		if err == nil || ctx.Err() != nil {
			return leader, err
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// follow aims at the leader of now. Nobody may ask anything meanwhile.
func (t *target) follow(ctx context.Context) error {
	leader, err := t.leader(ctx)
	if err != nil {
		return fmt.Errorf("find the leader: %w", err)
	}
	return t.aim(leader)
}

func (t *target) whoLeads(ctx context.Context) (string, error) {
	c := t.conn()
	defer c.close()
	status, answer, err := c.call(ctx, http.MethodGet, "/v1/locks?limit=1", nil)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", failure(status, answer)
	}
	if _, leader, ok := strings.Cut(string(c.leader), " "); ok {
		return leader, nil
	}
	return t.base, nil
}

// session begins a session, which end ends.
func (t *target) session() string {
	s := randomHex(16)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = append(t.sessions, s)
	return s
}

// end ends all sessions: what they hold is free, and what is still on its way grants nothing. It goes on when ctx has ended.
func (t *target) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), endTime, fmt.Errorf("not done after %v", endTime))
	defer cancel()
	err := untilDone(ctx, func() (bool, error) { return true, t.follow(ctx) }) // it may be another one, or none yet
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var g errgroup.Group
	for i := range enders {
		g.Go(func() error {
			c := t.conn()
			defer c.close()
			for s := i; s < len(t.sessions); s += enders {
				if err := c.endSession(ctx, t.sessions[s]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
	}
	t.sessions = nil
	return nil
}

// endSession ends one session, and tries again while the cluster has no leader.
func (c *conn) endSession(ctx context.Context, session string) error {
	return untilDone(ctx, func() (again bool, err error) {
		status, answer, err := c.call(ctx, http.MethodDelete, "/v1/sessions/"+session, nil)
		if err == nil && status != http.StatusOK {
			return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests, failure(status, answer)
		}
		return true, err
	})
}

const endAgain = 500 * time.Millisecond

// untilDone tries until there is no error, or one that trying again does not mend, or ctx ends.
func untilDone(ctx context.Context, try func() (again bool, err error)) error {
	tick := time.NewTicker(endAgain)
	defer tick.Stop()
	for {
		again, err := try()
		if err == nil || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
