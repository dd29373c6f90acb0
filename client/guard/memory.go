package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// resourcesMaxDefault bounds a Memory that was not told otherwise, at some 200 bytes each.
const resourcesMaxDefault = 1 << 20

// fenceWeight is a fence's whole semaphore: entering takes all of it, each action one.
const fenceWeight = 1 << 30

// Memory guards resources that live and die with this process: a device that it drives, a cache that it owns, a file
// that it alone has open. A restarted process has forgotten who entered, and a stale holder would be let in; what
// outlives the process needs a fence that does too, such as SQL. The zero value is ready, and nobody has entered it. Safe
// for concurrent use; the fields are set before the first use.
type Memory struct {
	Reporting Reporting
	// ResourcesMax bounds how many resources it knows; 0: 1,048,576. None is ever forgotten, because a forgotten fence is
	// an open one: one resource more is ErrTooManyResources.
	ResourcesMax int

	mu     sync.Mutex
	fences map[string]*fence // guarded by mu
}

// fence is one resource's highest token, which changes only while nobody acts.
type fence struct {
	highest atomic.Uint64 // raised with the whole of use
	use     *semaphore.Weighted
}

// NewMemory makes a guard that nobody has entered and that reports nothing.
func NewMemory() *Memory { return &Memory{} }

// Entry is the right to act on a resource of a Memory, until a higher token enters. Only Enter makes one. Safe for
// concurrent use.
type Entry struct {
	memory   *Memory
	resource string
	token    uint64
}

// Token is the token that entered.
func (e *Entry) Token() uint64 { return e.token }

// Resource is the name of what was entered.
func (e *Entry) Resource() string { return e.resource }

// Do runs act unless a higher token has entered: see Memory.Do.
func (e *Entry) Do(ctx context.Context, act func() error) error {
	return e.memory.Do(ctx, e.resource, e.token, act)
}

// Enter raises the resource's fence to token. It is a holder's first act at the resource, before it reads what it will
// change. It waits until actions of lower tokens have ended, and returns then: no older action is under way or will begin.
// Entering again with the same token is accepted. Refused with ErrStale and ErrNoToken; ErrResource and
// ErrTooManyResources say that the resource could not be looked up. When ctx ends first its error is returned and the
// fence is as it was.
func (m *Memory) Enter(ctx context.Context, resource string, token uint64) (*Entry, error) {
	err := m.enter(ctx, resource, token)
	m.Reporting.observe(resource, err)
	if err != nil {
		return nil, err
	}
	return &Entry{m, resource, token}, nil
}

func (m *Memory) enter(ctx context.Context, resource string, token uint64) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if err := checkToken(token); err != nil {
		return err
	}
	f, err := m.fenceFor(resource)
	if err != nil {
		return err
	}
	if highest := f.highest.Load(); token <= highest {
		return decideEnter(resource, token, highest)
	}
	if err := f.use.Acquire(ctx, fenceWeight); err != nil {
		return fmt.Errorf("guard: enter %s with token %d: %w", resource, token, err)
	}
	defer f.use.Release(fenceWeight)
	if err := decideEnter(resource, token, f.highest.Load()); err != nil {
		return err // somebody newer was faster
	}
	f.highest.Store(token)
	return nil
}

// Check says whether token is the highest that has entered. The answer may be old by the time it is read; only an action
// inside Do is sure that nobody newer enters meanwhile. Refused with ErrStale, ErrNotEntered and ErrNoToken.
func (m *Memory) Check(resource string, token uint64) error {
	_, err := m.check(resource, token)
	m.Reporting.observe(resource, err)
	return err
}

func (m *Memory) check(resource string, token uint64) (*fence, error) {
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	if err := checkToken(token); err != nil {
		return nil, err
	}
	m.mu.Lock()
	f := m.fences[resource]
	m.mu.Unlock()
	if f == nil {
		return nil, decideCheck(resource, token, 0)
	}
	return f, decideCheck(resource, token, f.highest.Load())
}

// Do checks that token is the highest that has entered, and runs act while no other can enter. Actions of one token run
// side by side. A newer holder's Enter waits for act, so act must end in bounded time, and must neither enter nor call Do
// for the same resource. Refused with ErrStale, ErrNotEntered and ErrNoToken, act not having run; else the error is
// act's, or that of ctx if it ended while somebody was entering.
func (m *Memory) Do(ctx context.Context, resource string, token uint64, act func() error) error {
	done, err := m.hold(ctx, resource, token)
	m.Reporting.observe(resource, err)
	if err != nil {
		return err
	}
	defer done()
	return act()
}

// hold checks the token and keeps others from entering until done is called.
func (m *Memory) hold(ctx context.Context, resource string, token uint64) (done func(), err error) {
	f, err := m.check(resource, token)
	if err != nil {
		return nil, err
	}
	if err := f.use.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("guard: act on %s with token %d: %w", resource, token, err)
	}
	if err := decideCheck(resource, token, f.highest.Load()); err != nil {
		f.use.Release(1)
		return nil, err
	}
	return func() { f.use.Release(1) }, nil
}

// fenceFor finds a resource's fence, or makes it.
func (m *Memory) fenceFor(resource string) (*fence, error) {
	limit := m.ResourcesMax
	if limit <= 0 {
		limit = resourcesMaxDefault
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.fences[resource]; f != nil {
		return f, nil
	}
	if len(m.fences) >= limit {
		return nil, fmt.Errorf("%w: %d are known already", ErrTooManyResources, len(m.fences))
	}
	if m.fences == nil {
		m.fences = map[string]*fence{}
	}
	f := &fence{use: semaphore.NewWeighted(fenceWeight)}
	m.fences[resource] = f
	return f, nil
}
