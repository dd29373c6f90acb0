package lockcore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"github.com/tidwall/btree"
)

const (
	snapshotMagic    = "STNLOCK\x01"
	frameBytesMax    = 64 << 10
	frameHead        = 1
	frameTenant      = 2
	frameClass       = 3
	frameSession     = 4
	frameLease       = 5
	frameKey         = 6
	frameDroppedSlug = 7
	frameEnd         = 8
	frameGuard       = 9
	frameReporter    = 10
)

// ErrInvalidSnapshot is returned by Restore for a stream that is damaged, cut short, of another version, or that
// contradicts itself.
var ErrInvalidSnapshot = errors.New("invalid snapshot")

type snapshotHead struct {
	Index           uint64     `cbor:"1,keyasint"`
	Epoch           Epoch      `cbor:"2,keyasint"`
	Level           uint16     `cbor:"3,keyasint"`
	ClockMS         int64      `cbor:"4,keyasint"`
	Rolling         [32]byte   `cbor:"5,keyasint"`
	Checkpoint      Checkpoint `cbor:"6,keyasint"`
	CheckpointKnown uint64     `cbor:"7,keyasint"`
}

type snapshotTenant struct {
	ID        TenantID `cbor:"1,keyasint"`
	LastToken Token    `cbor:"2,keyasint"`
	Quotas    Quotas   `cbor:"3,keyasint"`
	Suspended bool     `cbor:"4,keyasint,omitempty"`
	Dropped   bool     `cbor:"5,keyasint,omitempty"`
	Revision  uint64   `cbor:"6,keyasint,omitempty"`
}

type snapshotKey struct {
	Class      ClassName `cbor:"1,keyasint"`
	Key        Key       `cbor:"2,keyasint"`
	Holder     LeaseID   `cbor:"3,keyasint,omitempty"`
	DelayToken Token     `cbor:"4,keyasint,omitempty"`
	DelayMS    int64     `cbor:"5,keyasint,omitempty"`
	NextPlace  uint64    `cbor:"6,keyasint"`
}

type snapshotGuard struct {
	Class ClassName `cbor:"1,keyasint"`
	Guard Guard     `cbor:"2,keyasint"`
}

type snapshotSlug struct {
	ID       TenantID `cbor:"1,keyasint"`
	Token    Token    `cbor:"2,keyasint"`
	Revision uint64   `cbor:"3,keyasint,omitempty"`
}

// Snapshot is a machine's state at one index. It stays as it is while the machine goes on, and may be written by
// another goroutine.
type Snapshot struct {
	head    snapshotHead
	tenants []*tenant
	dropped *btree.Map[string, droppedSlug]
}

// Snapshot captures the state in time proportional to the number of tenants, whatever they hold.
func (m *Machine) Snapshot() *Snapshot {
	s := &Snapshot{
		head: snapshotHead{Index: m.index, Epoch: m.epoch, Level: m.level, ClockMS: m.clockMS, Rolling: m.rolling,
			Checkpoint: m.checkpoint, CheckpointKnown: m.checkpointKnown},
		dropped: m.dropped.Copy(),
	}
	m.tenants.Scan(func(_ string, t *tenant) bool {
		s.tenants = append(s.tenants, t.capture())
		return true
	})
	return s
}

// Index is the log index that the snapshot stands at.
func (s *Snapshot) Index() uint64 { return s.head.Index }

// WriteTo writes the state in its one form: equal states give equal bytes.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	f := &frameWriter{w: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	f.raw([]byte(snapshotMagic))
	f.frame(frameHead, s.head)
	for _, t := range s.tenants {
		t.writeTo(f)
	}
	s.dropped.Scan(func(id string, gone droppedSlug) bool {
		f.frame(frameDroppedSlug, snapshotSlug{ID: TenantID(id), Token: gone.token, Revision: gone.revision})
		return f.err == nil
	})
	f.frame(frameEnd, f.sum.Sum(nil))
	if f.err == nil {
		f.err = f.w.Flush()
	}
	return f.n, f.err
}

// Hash is a digest of the whole state, for comparison between machines that applied the same index.
func (m *Machine) Hash() [32]byte { return m.Snapshot().Hash() }

// Hash is a digest of the captured state.
func (s *Snapshot) Hash() [32]byte {
	sum := sha256.New()
	if _, err := s.WriteTo(sum); err != nil {
		panic(fmt.Sprintf("lockcore: hash of a state that cannot be written: %v", err))
	}
	return [32]byte(sum.Sum(nil))
}

func (t *tenant) writeTo(f *frameWriter) {
	f.frame(frameTenant, snapshotTenant{ID: t.ID, LastToken: t.lastToken, Quotas: t.quotas, Suspended: t.suspended,
		Dropped: t.dropped, Revision: t.revision})
	t.classes.Scan(func(_ string, c *Class) bool { return f.frame(frameClass, c) })
	t.sessions.Scan(func(_ string, s *Session) bool { return f.frame(frameSession, s) })
	t.leases.Scan(func(_ string, l *Lease) bool { return f.frame(frameLease, l) })
	t.keys.Scan(func(name string, k *keyRow) bool {
		class, key := splitKeyName(name)
		return f.frame(frameKey, snapshotKey{Class: class, Key: key, Holder: k.holder, DelayToken: k.delayToken,
			DelayMS: k.delayMS, NextPlace: k.nextPlace})
	})
	t.guards.Scan(func(class string, g *Guard) bool {
		return f.frame(frameGuard, snapshotGuard{Class: ClassName(class), Guard: *g})
	})
	t.reporters.Scan(func(_ string, r *reporter) bool { return f.frame(frameReporter, r) })
}

// frameWriter writes length-prefixed records and keeps their digest. It stops at the first error.
type frameWriter struct {
	w   *bufio.Writer
	sum hash.Hash
	n   int64
	err error
}

func (f *frameWriter) raw(b []byte) {
	if f.err != nil {
		return
	}
	f.sum.Write(b)
	n, err := f.w.Write(b)
	f.n, f.err = f.n+int64(n), err
}

func (f *frameWriter) frame(kind byte, record any) bool {
	body, err := encMode.Marshal(record)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return false
	}
	f.raw(append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...))
	return f.err == nil
}

// Restore reads a whole machine from what WriteTo wrote. Any fault is ErrInvalidSnapshot (or the reader's own error),
// and no machine.
func Restore(r io.Reader) (*Machine, error) {
	f := &frameReader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	m, err := f.machine()
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("restore: %w: %w", ErrInvalidSnapshot, err)
	}
	return m, nil
}

type frameReader struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (f *frameReader) machine() (*Machine, error) {
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(f.r, magic); err != nil || string(magic) != snapshotMagic {
		return nil, fmt.Errorf("%w: it does not begin as one of this version", ErrInvalidSnapshot)
	}
	f.sum.Write(magic)
	load := loader{m: New()}
	for {
		var before []byte // digest of what stands before the end record
		if kind, err := f.r.Peek(1); err == nil && kind[0] == frameEnd {
			before = f.sum.Sum(nil)
		}
		kind, body, err := f.next()
		if err != nil {
			return nil, err
		}
		if kind == frameEnd {
			return load.finish(f.r, before, body)
		}
		if err := load.record(kind, body); err != nil {
			return nil, fmt.Errorf("%w: record of kind %d: %w", ErrInvalidSnapshot, kind, err)
		}
	}
}

func (f *frameReader) next() (byte, []byte, error) {
	kind, err := f.r.ReadByte()
	if err != nil {
		return 0, nil, fmt.Errorf("%w: cut short: %w", ErrInvalidSnapshot, err)
	}
	size, err := binary.ReadUvarint(f.r)
	if err != nil || size > frameBytesMax {
		return 0, nil, fmt.Errorf("%w: a record's length is damaged", ErrInvalidSnapshot)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(f.r, body); err != nil {
		return 0, nil, fmt.Errorf("%w: cut short: %w", ErrInvalidSnapshot, err)
	}
	f.sum.Write(append(binary.AppendUvarint([]byte{kind}, size), body...))
	return kind, body, nil
}

// loader rebuilds a machine record by record; rows that follow from others are not in the stream. Records stand in the
// order in which WriteTo writes them, each once.
type loader struct {
	m      *Machine
	t      *tenant
	headed bool
	last   string // place of the last record: within its tenant, or among the dropped slugs
}

var errOrder = errors.New("out of order")

// follows checks that a record stands after the last one.
func (d *loader) follows(kind byte, row string) error {
	place := string(kind) + row
	if !d.headed || place <= d.last {
		return errOrder
	}
	d.last = place
	return nil
}

func (d *loader) record(kind byte, body []byte) error {
	switch kind {
	case frameHead:
		return d.head(body)
	case frameDroppedSlug:
		return load(body, d.slug)
	case frameTenant:
		return load(body, d.tenant)
	}
	if d.t == nil {
		return errOrder
	}
	switch kind {
	case frameClass:
		return load(body, d.class)
	case frameSession:
		return load(body, d.session)
	case frameLease:
		return load(body, d.lease)
	case frameKey:
		return load(body, d.key)
	case frameGuard:
		return load(body, d.guard)
	case frameReporter:
		return load(body, d.reporter)
	}
	return errors.New("unknown")
}

func load[R any](body []byte, into func(R) error) error {
	var r R
	if err := decMode.Unmarshal(body, &r); err != nil {
		return err
	}
	if again, err := encMode.Marshal(r); err != nil || !bytes.Equal(again, body) {
		return errors.New("not in its one form")
	}
	return into(r)
}

func (d *loader) head(body []byte) error {
	if d.headed {
		return errOrder
	}
	d.headed = true
	return load(body, func(h snapshotHead) error {
		m := d.m
		m.index, m.epoch, m.level, m.clockMS, m.rolling = h.Index, h.Epoch, h.Level, h.ClockMS, h.Rolling
		m.checkpoint, m.checkpointKnown = h.Checkpoint, h.CheckpointKnown
		if h.Level > LevelSupported {
			return fmt.Errorf("level %d is above %d", h.Level, LevelSupported)
		}
		return nil
	})
}

func (d *loader) tenant(s snapshotTenant) error {
	if !d.headed || (d.t != nil && s.ID <= d.t.ID) || strings.HasPrefix(d.last, string(byte(frameDroppedSlug))) {
		return errOrder
	}
	d.t, d.last = newTenant(s.ID, s.LastToken), ""
	d.t.quotas, d.t.suspended, d.t.dropped, d.t.revision = s.Quotas, s.Suspended, s.Dropped, s.Revision
	d.m.tenants.Set(string(s.ID), d.t)
	return nil
}

func (d *loader) slug(s snapshotSlug) error {
	if d.t != nil {
		d.t, d.last = nil, "" // behind the last tenant, whatever kinds of rows it has
	}
	d.m.dropped.Set(string(s.ID), droppedSlug{token: s.Token, revision: s.Revision})
	return d.follows(frameDroppedSlug, string(s.ID))
}

func (d *loader) class(c Class) error {
	d.t.classes.Set(string(c.Name), &c)
	return d.follows(frameClass, string(c.Name))
}

func (d *loader) session(s Session) error {
	d.t.sessions.Set(string(s.ID[:]), &s)
	return d.follows(frameSession, string(s.ID[:]))
}

func (d *loader) lease(l Lease) error {
	if err := d.follows(frameLease, l.ID.row()); err != nil {
		return err
	}
	d.t.leases.Set(l.ID.row(), &l)
	switch l.State {
	case StateWaiting:
		d.t.queue.Set(queueRow(l.Class, l.Key, l.Place), l.ID)
		d.t.waiting++
	case StateEnded:
		d.t.ends++
	}
	return nil
}

func (d *loader) key(k snapshotKey) error {
	row := keyRow{holder: k.Holder, delayToken: k.DelayToken, delayMS: k.DelayMS, nextPlace: k.NextPlace}
	row.waiters = d.t.waitersOf(k.Class, k.Key)
	if !row.occupied() && row.waiters == 0 {
		return errors.New("a key that says nothing")
	}
	d.t.setKey(k.Class, k.Key, row)
	return d.follows(frameKey, keyName(k.Class, k.Key))
}

func (d *loader) guard(g snapshotGuard) error {
	d.t.guards.Set(string(g.Class), &g.Guard)
	return d.follows(frameGuard, string(g.Class))
}

func (d *loader) reporter(r reporter) error {
	d.t.putReporter(&r)
	return d.follows(frameReporter, string(r.ID[:]))
}

func (d *loader) finish(r *bufio.Reader, sum, body []byte) (*Machine, error) {
	var stated []byte
	if err := cbor.Unmarshal(body, &stated); err != nil || !bytes.Equal(stated, sum) {
		return nil, fmt.Errorf("%w: its digest does not match", ErrInvalidSnapshot)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("%w: bytes after its end", ErrInvalidSnapshot)
	}
	if !d.headed {
		return nil, fmt.Errorf("%w: no head", ErrInvalidSnapshot)
	}
	return d.m, nil
}
