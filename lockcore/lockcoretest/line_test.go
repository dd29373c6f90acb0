package lockcoretest_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

func TestParseCommand_readsWhatFormatCommandWrites(t *testing.T) {
	commands := []lockcore.Command{
		lockcore.Acquire{Tenant: "acme", Lease: lockcore.LeaseID{Session: lockcore.SessionID{1, 2, 3}, Sequence: 7}, Class: "jobs",
			Key: "a key=\"quoted\" # and # more\n", Owner: "bob", WaitMS: lockcore.WaitUnlimited, Holder: "host:1", APIKey: "k1"},
		lockcore.Checkpoint{Index: 10_000, Hash: [32]byte{1, 31: 9}},
	}
	g := lockcoretest.NewGenerator(lockcoretest.Shape{Seed: 3, Tenants: 4, BatchMax: 8, Keys: 4})
	m := lockcore.New()
	for len(commands) < 20_000 {
		index, e := g.Next()
		commands = append(commands, e.Commands...)
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, events := m.Apply(index, b)
		g.Observe(m, events)
	}
	for _, want := range commands {
		line := lockcoretest.FormatCommand(want)
		got, err := lockcoretest.ParseCommand(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("line %s\ngot  %#v (%v)\nwant %#v", line, got, err, want)
		}
	}
}

func TestParseCommand_refusesWhatIsNoCommand(t *testing.T) {
	for _, line := range []string{"", "acquire", "acquire acme s1.1 jobs k surprise", "acquire acme s1.1 jobs k tokens=1",
		"acquire acme s1.x jobs k", "acquire acme s1.1 jobs k wait=10", "leave acme s1.1 because", "put-class acme jobs purpose=fun",
		"frobnicate acme", `acquire acme s1.1 jobs "k`} {
		if c, err := lockcoretest.ParseCommand(line); !errors.Is(err, lockcoretest.ErrSyntax) {
			t.Errorf("line %q: got %v and error %v, want ErrSyntax", line, c, err)
		}
	}
}

// TestShorten_keepsOnlyWhatFails looks for a release of s7.1 after its acquire among two hundred batches.
func TestShorten_keepsOnlyWhatFails(t *testing.T) {
	why := lockcoretest.ErrFIFO
	fails := func(entries []lockcore.Entry) error {
		acquired := false
		for _, e := range entries {
			for _, c := range e.Commands {
				line := lockcoretest.FormatCommand(c)
				acquired = acquired || strings.HasPrefix(line, "acquire acme s7.1 ")
				if acquired && strings.HasPrefix(line, "release acme s7.1") {
					return why
				}
			}
		}
		return nil
	}
	var entries []lockcore.Entry
	for i := range 200 {
		e := lockcore.Entry{Epoch: 1, Commands: []lockcore.Command{lockcore.LeaseClock{}}}
		for n := range uint16(20) {
			e.Commands = append(e.Commands, lockcore.Acquire{Tenant: "acme", Lease: lockcoretest.LeaseNumber(n, uint64(i)), Class: "jobs", Key: "k"})
		}
		entries = append(entries, e)
	}
	entries[150].Commands = append(entries[150].Commands, lockcore.Release{Tenant: "acme", Lease: lockcoretest.LeaseNumber(7, 1)})
	short := lockcoretest.Shorten(entries, why, 1_000_000, fails)
	if len(short) != 2 || fails(short) == nil {
		t.Errorf("got %d entries, want the two that fail:\n%s", len(short), lockcoretest.FormatEntries(short))
	}
}
