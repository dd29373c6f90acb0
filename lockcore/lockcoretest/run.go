package lockcoretest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/stanchion-locks/stanchion/lockcore"
)

var (
	// ErrDeterminism says that equal entries led to unequal machines.
	ErrDeterminism = errors.New("equal entries lead to equal states")
	// ErrSnapshot says that a snapshot changed under its reader, or did not come back as it was.
	ErrSnapshot = errors.New("a snapshot stays as it was and restores to it")
	// ErrStopped says that a machine panicked.
	ErrStopped = errors.New("the machine stopped")
)

// Tally counts what a run drew and met.
type Tally struct {
	Entries, Commands int
	Outcomes          map[lockcore.Outcome]int
	Reasons           map[lockcore.Reason]int // of results, and of the events that end holds and waits
	Restores          int
	Shed              int // ends forgotten for a quota of ends
	Fenced            int // stale tokens that guards reported
}

// Add takes another tally in.
func (t *Tally) Add(o Tally) {
	t.init()
	t.Entries, t.Commands, t.Restores = t.Entries+o.Entries, t.Commands+o.Commands, t.Restores+o.Restores
	t.Shed, t.Fenced = t.Shed+o.Shed, t.Fenced+o.Fenced
	for k, n := range o.Outcomes {
		t.Outcomes[k] += n
	}
	for k, n := range o.Reasons {
		t.Reasons[k] += n
	}
}

func (t *Tally) init() {
	if t.Outcomes == nil {
		t.Outcomes, t.Reasons = map[lockcore.Outcome]int{}, map[lockcore.Reason]int{}
	}
}

func (t *Tally) count(results []lockcore.Result, events []lockcore.Event) {
	t.init()
	t.Entries++
	t.Commands += len(results)
	for _, r := range results {
		t.Outcomes[r.Outcome]++
		if r.Reason != 0 {
			t.Reasons[r.Reason]++
		}
	}
	for _, e := range events {
		switch e.Kind {
		case lockcore.EventEnded, lockcore.EventLeft:
			t.Reasons[e.Reason]++
		case lockcore.EventFenced:
			t.Fenced++
		}
	}
}

// How often, in entries, the checks that take time proportional to the state are made.
const (
	deepCheckEvery = 800
	snapshotEvery  = 1_200
)

// twinFollows is how many entries a twin applies that does not apply them all: from each restored snapshot on.
const twinFollows = 250

// Trial holds two machines to the model, the ledger, their own consistency and each other, entry by entry. The second
// one is thrown away now and then, and goes on from a snapshot of the first. Not safe for concurrent use.
type Trial struct {
	Tally Tally

	machine, twin *lockcore.Machine // twin: nil while none follows
	follows       int               // entries since the twin was restored
	always        bool              // the twin applies every entry
	model         *Model
	ledger        *Ledger
	r             *rand.Rand         // says when
	kept          *lockcore.Snapshot // an older state, written once then
	keptBytes     []byte
}

// NewTrial begins a trial. The seed says when snapshots are taken and full checks made, and most spare time: their
// twin follows for a while only after each snapshot.
func NewTrial(seed uint64) *Trial {
	return &Trial{machine: lockcore.New(), twin: lockcore.New(), model: NewModel(), ledger: NewLedger(),
		always: seed%4 == 0, r: rand.New(rand.NewPCG(seed, 0x7721))}
}

// Apply applies one entry everywhere and checks what came of it. Errors wrap the invariant that does not hold.
func (t *Trial) Apply(index uint64, e lockcore.Entry) (events []lockcore.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrStopped, p)
		}
	}()
	encoded, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var before map[lockcore.TenantID][32]byte
	deep := t.r.IntN(deepCheckEvery) == 0
	if deep {
		before = TenantDigests(t.machine)
	}
	results, events := t.machine.Apply(index, encoded)
	t.applyToTwin(index, encoded)
	t.Tally.count(results, events)
	if err := t.check(index, e, results, events); err != nil {
		return events, err
	}
	if deep {
		if err := t.deepCheck(e, before); err != nil {
			return events, err
		}
	}
	if t.r.IntN(snapshotEvery) == 0 {
		return events, t.swapTwin()
	}
	return events, nil
}

func (t *Trial) applyToTwin(index uint64, encoded []byte) {
	if t.follows++; t.follows > twinFollows && !t.always {
		t.twin = nil
		return
	}
	t.twin.Apply(index, encoded)
}

// check makes the checks that cost as much as the entry itself.
func (t *Trial) check(index uint64, e lockcore.Entry, results []lockcore.Result, events []lockcore.Event) error {
	want := t.model.Apply(index, e)
	t.Tally.Shed = t.model.shed
	for i, c := range e.Commands {
		if results[i] != want[i] {
			return fmt.Errorf("%w: %s gives %s, want %s", ErrModel, FormatCommand(c), FormatResult(results[i]), FormatResult(want[i]))
		}
	}
	if err := t.ledger.Entry(e, results, events); err != nil {
		return err
	}
	if err := t.model.ComparePartition(t.machine); err != nil {
		return err
	}
	if t.twin != nil && (t.machine.Rolling() != t.twin.Rolling() || t.machine.LeaseClockMS() != t.twin.LeaseClockMS()) {
		return fmt.Errorf("%w: rolling hashes or lease clocks differ at %d", ErrDeterminism, index)
	}
	for i, c := range e.Commands {
		if err := t.checkTouched(e, c, i == 0 || TenantOf(e.Commands[i-1]) != TenantOf(c)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trial) checkTouched(e lockcore.Entry, c lockcore.Command, counts bool) error {
	id, lease := TenantOf(c), leaseOf(c)
	if id == "" {
		return nil
	}
	if counts {
		if err := errors.Join(t.model.CompareCounts(t.machine, id), t.ledger.Quotas(t.machine, e, id)); err != nil {
			return err
		}
	}
	if r, ok := c.(lockcore.ReportGuard); ok {
		return t.model.CompareGuard(t.machine, id, r.Class)
	}
	if lease == (lockcore.LeaseID{}) {
		return nil
	}
	if err := t.model.CompareLease(t.machine, id, lease); err != nil {
		return err
	}
	if l, ok := t.machine.Lease(id, lease); ok {
		return t.model.CompareLock(t.machine, id, l.Class, l.Key)
	}
	return nil
}

// deepCheck compares the whole state, and that the entry left alone what it did not name.
func (t *Trial) deepCheck(e lockcore.Entry, before map[lockcore.TenantID][32]byte) error {
	if err := t.machine.Check(); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if t.twin != nil && t.machine.Hash() != t.twin.Hash() {
		return fmt.Errorf("%w: state hashes differ", ErrDeterminism)
	}
	named := map[lockcore.TenantID]bool{"": true} // final tokens move with their tenants
	for _, c := range e.Commands {
		named[TenantOf(c)] = true
	}
	after := TenantDigests(t.machine)
	for id, digest := range before {
		if !named[id] && after[id] != digest {
			return fmt.Errorf("%w: %s is another", ErrIsolation, id)
		}
	}
	for _, s := range t.machine.Tenants() {
		if err := errors.Join(t.model.CompareTenant(t.machine, s.ID), t.ledger.Compare(t.machine, s.ID)); err != nil {
			return err
		}
	}
	return nil
}

// swapTwin writes the snapshot kept since the last time, which must be what it was, keeps one of now, and goes on with a
// twin restored from it.
func (t *Trial) swapTwin() error {
	if t.kept != nil {
		var again bytes.Buffer
		if _, err := t.kept.WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), t.keptBytes) {
			return fmt.Errorf("%w: the one of %d changed while the machine went on (%v)", ErrSnapshot, t.kept.Index(), err)
		}
	}
	var b bytes.Buffer
	t.kept = t.machine.Snapshot()
	if _, err := t.kept.WriteTo(&b); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	t.keptBytes = b.Bytes()
	restored, err := lockcore.Restore(&b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if restored.Hash() != t.machine.Hash() || t.model.ComparePartition(restored) != nil {
		return fmt.Errorf("%w: restored to another hash or place in the log", ErrSnapshot)
	}
	t.twin, t.follows = restored, 0
	t.Tally.Restores++
	return nil
}

// Failure is a sequence that breaks an invariant.
type Failure struct {
	Shape   Shape
	Err     error
	Entries []lockcore.Entry // as drawn, up to the one that failed
}

// Run draws entries until commands are reached and holds them to everything. It returns nil or the first failure.
func Run(s Shape, commands int) (Tally, *Failure) {
	g, t := NewGenerator(s), NewTrial(s.Seed)
	var drawn []lockcore.Entry
	for t.Tally.Commands < commands {
		index, e := g.Next()
		drawn = append(drawn, e)
		events, err := t.Apply(index, e)
		if err != nil {
			return t.Tally, &Failure{Shape: s, Err: err, Entries: drawn}
		}
		g.Observe(t.machine, events)
	}
	return t.Tally, nil
}

// Replay applies entries to a new trial with consecutive indices, and returns its first error.
func Replay(entries []lockcore.Entry) error {
	t := NewTrial(0)
	for i, e := range entries {
		if _, err := t.Apply(uint64(i+1), e); err != nil {
			return err
		}
	}
	return t.deepCheck(lockcore.Entry{}, nil)
}

// rules are what a sequence may break; a shorter one must break the same.
var rules = []error{ErrExclusion, ErrTokenOrder, ErrGrantOnce, ErrFIFO, ErrEpochOrder, ErrIsolation, ErrQuota, ErrModel,
	ErrDeterminism, ErrSnapshot, ErrStopped}

func sameRule(a, b error) bool {
	for _, r := range rules {
		if errors.Is(a, r) || errors.Is(b, r) {
			return errors.Is(a, r) && errors.Is(b, r)
		}
	}
	return (a == nil) == (b == nil)
}

// Shorten takes commands out of a failing sequence as long as what is left fails for the same rule under fails, in at
// most about budget commands applied. Batches are taken apart first.
func Shorten(entries []lockcore.Entry, why error, budget int, fails func([]lockcore.Entry) error) []lockcore.Entry {
	try := func(shorter []lockcore.Entry) bool {
		budget -= len(shorter)
		return budget > 0 && sameRule(why, fails(shorter))
	}
	if single := apart(entries); try(single) {
		entries = single
	}
	for size := (len(entries) + 1) / 2; size > 0 && budget > 0; {
		removed := false
		for at := len(entries) - size; at >= 0; at -= size {
			shorter := slices.Concat(entries[:at], entries[at+size:])
			if try(shorter) {
				entries, removed = shorter, true
			}
			at = min(at, len(entries))
		}
		if !removed || size > len(entries) {
			size /= 2
		}
	}
	return thin(entries, try)
}

// thin takes single commands out of batches that could not be taken apart.
func thin(entries []lockcore.Entry, try func([]lockcore.Entry) bool) []lockcore.Entry {
	for i := len(entries) - 1; i >= 0; i-- {
		for at := len(entries[i].Commands) - 1; at >= 0 && len(entries[i].Commands) > 1; at-- {
			shorter := slices.Clone(entries)
			shorter[i].Commands = slices.Delete(slices.Clone(entries[i].Commands), at, at+1)
			if try(shorter) {
				entries = shorter
			}
		}
	}
	return entries
}

func apart(entries []lockcore.Entry) []lockcore.Entry {
	var single []lockcore.Entry
	for _, e := range entries {
		for _, c := range e.Commands {
			one := e
			one.Commands = []lockcore.Command{c}
			single = append(single, one)
		}
	}
	return single
}

// Report writes the failure: seed, rule, and the shortest sequence found, as a transcript.
func (f *Failure) Report(w io.Writer) {
	short := Shorten(f.Entries, f.Err, 2_000_000, Replay)
	fmt.Fprintf(w, "shape %+v: %v\nafter %d entries; shortest found, %d:\n%s", f.Shape, f.Err, len(f.Entries), len(short),
		FormatEntries(short))
}
