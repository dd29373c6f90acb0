package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

// A lease is asked for, used and given back. Whatever it protects is told the token first, and asks Err before each step.
func ExampleClient_Acquire() {
	ctx := context.Background()
	c, end := connect() // in a program: client.New(endpoints, apiKey)
	defer end()

	l, err := c.Acquire(ctx, "ledger-close", "2026-06-30", client.Wait(30*time.Second))
	if err != nil {
		fmt.Println(err) // ErrWaitTimeout, ErrUnavailable and others say what to do
		return
	}
	for _, account := range []string{"cash", "stock"} {
		if err := l.Err(); err != nil {
			fmt.Println("stop:", err)
			break
		}
		fmt.Printf("close %s with token %d\n", account, l.Token())
	}
	fmt.Println("released:", l.Release(ctx) == nil)
	// Output:
	// close cash with token 1
	// close stock with token 1
	// released: true
}

// Who does not want to wait is told that somebody else has the key.
func ExampleClient_TryAcquire() {
	ctx := context.Background()
	c, end := connect()
	defer end()
	somebody, leave := connectAgain()
	defer leave()
	if _, err := somebody.Acquire(ctx, "ledger-close", "2026-06-30"); err != nil {
		fmt.Println(err)
		return
	}

	_, err := c.TryAcquire(ctx, "ledger-close", "2026-06-30")
	if errors.Is(err, client.ErrHeld) {
		fmt.Println("somebody else closes the ledger")
	}
	// Output:
	// somebody else closes the ledger
}

// Do is the whole of it: acquire, work, release. Its error says also when the hold was over before the work had returned.
func ExampleClient_Do() {
	c, end := connect()
	defer end()

	err := c.Do(context.Background(), "ledger-close", "2026-06-30", func(ctx context.Context, l *client.Lease) error {
		if err := ctx.Err(); err != nil { // ends with the hold
			return context.Cause(ctx)
		}
		fmt.Println("close the ledger with token", l.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// close the ledger with token 1
	// <nil>
}

// A leader that loses its leadership stops, and takes part again. It resigns by returning while it leads.
func ExampleClient_Campaign() {
	c, end := connect()
	defer end()

	terms := 0
	err := c.Campaign(context.Background(), "ledger-close", "leader", func(ctx context.Context, l *client.Lease) error {
		terms++
		fmt.Printf("term %d, token %d\n", terms, l.Token())
		if terms == 2 {
			return nil // resigns
		}
		platform.Expire("ledger-close", "leader") // as after a pause that was too long
		<-ctx.Done()
		fmt.Println("stop:", errors.Is(context.Cause(ctx), client.ErrExpired))
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// term 1, token 1
	// stop: true
	// term 2, token 2
	// <nil>
}

// An observer is told who leads, and each change. By the time it hears, somebody else may lead already.
func ExampleClient_Observe() {
	ctx := context.Background()
	c, end := connect()
	defer end()
	candidate, leave := connectAgain(client.WithHolder("worker-7"))
	defer leave()

	for now, err := range c.Observe(ctx, "ledger-close", "leader") {
		if err != nil {
			fmt.Println("nobody knows at the moment:", err)
			continue
		}
		if now.Token != 0 {
			fmt.Printf("%s leads with token %d\n", now.Holder, now.Token)
			break
		}
		fmt.Println("nobody leads")
		if _, err := candidate.Acquire(ctx, "ledger-close", "leader"); err != nil {
			fmt.Println(err)
			break
		}
	}
	// Output:
	// nobody leads
	// worker-7 leads with token 1
}

// OnLost is where work is stopped that does not watch a context: a release leaves only after it has returned.
func ExampleLease_OnLost() {
	ctx := context.Background()
	c, end := connect()
	defer end()
	l, err := c.Acquire(ctx, "ledger-close", "2026-06-30")
	if err != nil {
		fmt.Println(err)
		return
	}

	stopped := make(chan struct{})
	l.OnLost(func(cause error) {
		fmt.Println("stop the work:", errors.Is(cause, client.ErrRevoked))
		close(stopped)
	})
	platform.Revoke("ledger-close", "2026-06-30", clienttest.ReasonForced) // somebody ends the hold
	<-stopped

	err = l.Release(ctx) // says that it was lost; the platform is told all the same
	fmt.Println("lost before it was released:", errors.Is(err, client.ErrRevoked))
	// Output:
	// stop the work: true
	// lost before it was released: true
}

// platform plays the lock platform in examples.
var platform *clienttest.Platform

// connect makes a platform, and a client of it; end closes both.
func connect() (c *client.Client, end func()) {
	t := &exampleTest{}
	platform = clienttest.New(t)
	platform.Class("ledger-close", clienttest.ClassConfig{Lease: 30 * time.Second, Heartbeat: 100 * time.Millisecond})
	c, leave := connectAgain()
	return c, func() {
		leave()
		for _, f := range t.cleanups {
			f()
		}
	}
}

// connectAgain makes one more client of the platform, as in another process.
func connectAgain(opts ...client.Option) (c *client.Client, leave func()) {
	c, err := client.New(platform.Endpoints(), platform.APIKey(), append(platform.Options(), opts...)...)
	if err != nil {
		panic(err) // the options are ours
	}
	return c, func() {
		if err := c.Close(context.Background()); err != nil {
			fmt.Println("close:", err)
		}
	}
}

// exampleTest stands for the test, which an example does not have.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (*exampleTest) Helper()                           {}
func (*exampleTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTest) Cleanup(f func())                { t.cleanups = append(t.cleanups, f) }
