package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/clienttest"
)

// backUp is the program to be tested: it must stop when it does not hold the lock any more.
func backUp(ctx context.Context, c *client.Client, copyPart func(part int)) error {
	return c.Do(ctx, "backup", "db-1", func(ctx context.Context, l *client.Lease) error {
		for part := 1; ctx.Err() == nil; part++ {
			copyPart(part)
		}
		return context.Cause(ctx)
	})
}

// A program is tested on what it does when its lease is lost half-way.
func Example() {
	t := &exampleTest{} // in a test, its *testing.T
	defer t.end()

	p := clienttest.New(t)
	p.Class("backup", clienttest.ClassConfig{Lease: 2 * time.Second, Heartbeat: 100 * time.Millisecond})
	c, err := client.New(p.Endpoints(), p.APIKey(), p.Options()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(context.Background())

	err = backUp(context.Background(), c, func(part int) {
		if part == 3 {
			p.Revoke("backup", "db-1", clienttest.ReasonForced)
		}
	})
	fmt.Println("stopped:", errors.Is(err, client.ErrRevoked))
	_, _, held := p.Holder("backup", "db-1")
	fmt.Println("held:", held)
	// Output:
	// stopped: true
	// held: false
}

// exampleTest stands for the test, which an example does not have.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (*exampleTest) Helper()                           {}
func (*exampleTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTest) Cleanup(f func())                { t.cleanups = append(t.cleanups, f) }

func (t *exampleTest) end() {
	for _, f := range t.cleanups {
		f()
	}
}
