package lockcore_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/lockcoretest"
)

// grown is a machine with a random state, and the generator that goes on from it.
func grown(t *testing.T, seed uint64, commands int) (*lockcore.Machine, *lockcoretest.Generator) {
	t.Helper()
	g := lockcoretest.NewGenerator(lockcoretest.Shape{Seed: seed, Tenants: 3, BatchMax: 8, Keys: 5})
	m := lockcore.New()
	for commands > 0 {
		commands -= len(step(t, m, g))
	}
	return m, g
}

func step(t *testing.T, m *lockcore.Machine, g *lockcoretest.Generator) []lockcore.Result {
	t.Helper()
	index, e := g.Next()
	results, events := m.Apply(index, encode(t, e))
	g.Observe(m, events)
	return results
}

func written(t *testing.T, s *lockcore.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d bytes, said %d, error %v", b.Len(), n, err)
	}
	return b.Bytes()
}

// TestSnapshot_staysAsItWasWhileTheMachineGoesOn writes snapshots in goroutines of their own; the race detector watches
// what they share with the machine.
func TestSnapshot_staysAsItWasWhileTheMachineGoesOn(t *testing.T) {
	m, g := grown(t, 1, 5_000)
	var wg sync.WaitGroup
	for range 20 {
		s, want := m.Snapshot(), written(t, m.Snapshot())
		wg.Go(func() {
			for range 3 {
				var b bytes.Buffer
				if _, err := s.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), want) {
					t.Errorf("the snapshot of %d is another now (%v)", s.Index(), err)
				}
			}
		})
		for range 150 {
			step(t, m, g)
		}
		if got := written(t, s); !bytes.Equal(got, want) {
			t.Fatalf("the snapshot of %d is another now", s.Index())
		}
	}
	wg.Wait()
}

func TestRestore_isTheMachineAndItsFuture(t *testing.T) {
	m, g := grown(t, 2, 10_000)
	twin, err := lockcore.Restore(bytes.NewReader(written(t, m.Snapshot())))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2_000 {
		if i%50 == 0 && m.Hash() != twin.Hash() || m.Rolling() != twin.Rolling() || m.Index() != twin.Index() || m.Epoch() != twin.Epoch() ||
			m.LeaseClockMS() != twin.LeaseClockMS() || m.Level() != twin.Level() {
			t.Fatalf("the restored machine is another after %d entries", i)
		}
		index, e := g.Next()
		b := encode(t, e)
		_, events := m.Apply(index, b)
		twin.Apply(index, b)
		g.Observe(m, events)
	}
}

func TestRestore_refusesDamage(t *testing.T) {
	m, _ := grown(t, 3, 2_000)
	good := written(t, m.Snapshot())
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	damaged := map[string][]byte{
		"nothing": nil, "another magic": flip(0), "another version": flip(7), "a byte more": append(bytes.Clone(good), 0),
		"no end": good[:len(good)-35], "only the magic": good[:8], "twice": append(bytes.Clone(good), good...),
	}
	for name, b := range damaged {
		if got, err := lockcore.Restore(bytes.NewReader(b)); !errors.Is(err, lockcore.ErrInvalidSnapshot) || got != nil {
			t.Errorf("%s: got machine %v and error %v, want ErrInvalidSnapshot", name, got, err)
		}
	}
	for at := 8; at < len(good); at += 1 + len(good)/397 {
		if _, err := lockcore.Restore(bytes.NewReader(flip(at))); !errors.Is(err, lockcore.ErrInvalidSnapshot) {
			t.Errorf("byte %d of %d flipped: got error %v, want ErrInvalidSnapshot", at, len(good), err)
		}
		if _, err := lockcore.Restore(bytes.NewReader(good[:at])); !errors.Is(err, lockcore.ErrInvalidSnapshot) {
			t.Errorf("cut at %d of %d: got error %v, want ErrInvalidSnapshot", at, len(good), err)
		}
	}
}

var errDisk = errors.New("disk full")

// failing is a writer that takes so many bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestSnapshot_saysWhenItCouldNotBeWritten(t *testing.T) {
	m, _ := grown(t, 4, 10_000)
	size := len(written(t, m.Snapshot()))
	for _, room := range []int{0, size / 2, size - 1} {
		if _, err := m.Snapshot().WriteTo(&failing{left: room}); !errors.Is(err, errDisk) {
			t.Errorf("room for %d of %d bytes: got error %v, want %v", room, size, err, errDisk)
		}
	}
}

// TestSnapshot_emptyMachine restores a machine that applied nothing.
func TestSnapshot_emptyMachine(t *testing.T) {
	m, err := lockcore.Restore(bytes.NewReader(written(t, lockcore.New().Snapshot())))
	if err != nil || m.Hash() != lockcore.New().Hash() {
		t.Errorf("got error %v, want the empty machine", err)
	}
}

// TestRestore_refusesRowsThatContradict changes rows of the golden snapshot, and its digest with them.
func TestRestore_refusesRowsThatContradict(t *testing.T) {
	frames := framesOf(t, goldenFile(t, "snapshot-guard.bin", nil))
	off := 1 // of the count of ends: first one more, then one fewer, so that their sum is right
	for name, b := range map[string][]byte{
		"more live than there are": changed(t, frames, 4, func(s *lockcore.Session) { s.Live++ }),
		"more ends than there are": changed(t, frames, 4, func(s *lockcore.Session) { s.Ends++ }),
		"ends of another session": changed(t, frames, 4, func(s *lockcore.Session) {
			if s.Ends > 0 && off >= -1 {
				s.Ends, off = s.Ends+off, off-2
			}
		}),
		"a floor above the highest": changed(t, frames, 4, func(s *lockcore.Session) {
			if s.Ends == 0 {
				s.Floor = s.High + 1
			}
		}),
		"an end at the floor":  changed(t, frames, 4, func(s *lockcore.Session) { s.Floor = s.High }),
		"an end with a holder": changed(t, frames, 5, func(l *lockcore.Lease) { l.Holder = "host:1" }),
		"an end with a key":    changed(t, frames, 5, func(l *lockcore.Lease) { l.APIKey = "key1" }),
		"a guard of no class":  changed(t, frames, 9, func(g *guardRow) { g.Class += "-x" }),
		"a count beyond JSON":  changed(t, frames, 9, func(g *guardRow) { g.Guard.Checks = lockcore.CountMax + 1 }),
		"a report to come":     changed(t, frames, 10, func(r *reporterRow) { r.Index = lockcore.CheckpointEvery + 8 }),
		"no report":            changed(t, frames, 10, func(r *reporterRow) { r.Sequence = 0 }),
	} {
		if _, err := lockcore.Restore(bytes.NewReader(b)); !errors.Is(err, lockcore.ErrInvalidSnapshot) {
			t.Errorf("%s: got error %v, want ErrInvalidSnapshot", name, err)
		}
	}
	if _, err := lockcore.Restore(bytes.NewReader(changed(t, frames, 4, func(*lockcore.Session) {}))); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
}

// guardRow and reporterRow are the rows of kind 9 and 10.
type (
	guardRow struct {
		Class lockcore.ClassName `cbor:"1,keyasint"`
		Guard lockcore.Guard     `cbor:"2,keyasint"`
	}
	reporterRow struct {
		ID       lockcore.ReporterID `cbor:"1,keyasint"`
		Sequence uint64              `cbor:"2,keyasint"`
		Index    uint64              `cbor:"3,keyasint"`
	}
)

// changed is a snapshot of the records, with a change made to each row of one kind.
func changed[R any](t *testing.T, frames [][]byte, kind byte, change func(*R)) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, frame := range frames {
		if frame[0] == kind {
			var row R
			if err := cbor.Unmarshal(bodyOf(frame), &row); err != nil {
				t.Fatal(err)
			}
			change(&row)
			body, err := mode.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			frame = record(kind, body)
		}
		all = append(all, frame)
	}
	return stream(all)
}
