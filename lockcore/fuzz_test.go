package lockcore_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stanchion-locks/stanchion/lockcore"
)

func golden(f *testing.F, pattern string) [][]byte {
	f.Helper()
	names, err := filepath.Glob(filepath.Join(goldenDir, pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("no golden files %s: %v", pattern, err)
	}
	var all [][]byte
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// FuzzDecodeEntry: what decodes has one encoded form, which decodes to the same and encodes to the same bytes.
func FuzzDecodeEntry(f *testing.F) {
	for _, b := range golden(f, "entry-*.cbor") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := lockcore.DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, lockcore.ErrInvalidEntry) {
				t.Fatalf("got error %v, want ErrInvalidEntry", err)
			}
			return
		}
		form, err := e.Encode()
		if err != nil {
			if len(b) < lockcore.EntryBytesMax/2 {
				t.Fatalf("decoded %+v, which does not encode: %v", e, err)
			}
			return // fields that were left out made it too large
		}
		again, err := lockcore.DecodeEntry(form)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("got %+v (%v), want %+v", again, err, e)
		}
		if b := encode(t, again); !bytes.Equal(b, form) {
			t.Fatalf("encodes to %x, want %x", b, form)
		}
	})
}

// FuzzRestore puts one record of the golden snapshot into another's place, or before it, and sets lengths and digest
// right, so that they do not stop it: a machine that restores is sound and writes the bytes that it was restored from.
func FuzzRestore(f *testing.F) {
	frames := framesOf(f, golden(f, "snapshot-guard.bin")[0])
	for at, frame := range frames {
		f.Add(uint8(at), false, frame[0], bodyOf(frame))
		f.Add(uint8(at), true, frame[0], bodyOf(frame))
	}
	f.Fuzz(func(t *testing.T, at uint8, before bool, kind byte, body []byte) {
		i := int(at) % len(frames)
		rest := frames[i:]
		if !before {
			rest = rest[1:]
		}
		b := stream(slices.Concat(frames[:i], [][]byte{record(kind, body)}, rest))
		m, err := lockcore.Restore(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, lockcore.ErrInvalidSnapshot) {
				t.Fatalf("got error %v, want ErrInvalidSnapshot", err)
			}
			return
		}
		if err := m.Check(); err != nil {
			t.Fatalf("restored a machine that contradicts itself: %v", err)
		}
		var again bytes.Buffer
		if _, err := m.Snapshot().WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("writes other bytes than it was restored from (%v)", err)
		}
	})
}

// stream puts a snapshot together: records between magic and a digest that is right.
func stream(records [][]byte) []byte {
	b := append([]byte("STNLOCK\x01"), bytes.Join(records, nil)...)
	sum := sha256.Sum256(b)
	return append(append(b, 8, 2+sha256.Size, 0x58, sha256.Size), sum[:]...)
}

// record is one of a snapshot, with kind and length.
func record(kind byte, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
}

// framesOf takes a snapshot apart: its records without magic and end, each with kind and length.
func framesOf(tb testing.TB, b []byte) [][]byte {
	tb.Helper()
	var frames [][]byte
	for rest := b[8:]; rest[0] != 8; {
		size, width := binary.Uvarint(rest[1:])
		end := 1 + width + int(size)
		frames, rest = append(frames, rest[:end:end]), rest[end:]
	}
	return frames
}

func bodyOf(frame []byte) []byte {
	_, width := binary.Uvarint(frame[1:])
	return frame[1+width:]
}

// FuzzParseID: an id that parses has been written in its only form.
func FuzzParseID(f *testing.F) {
	f.Add("0123456789abcdef0123456789abcdef.1")
	f.Add("0123456789abcdef0123456789abcdef.9007199254740991")
	f.Add("0123456789abcdef0123456789abcdeF")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := lockcore.ParseLeaseID(s); err == nil && id.String() != s || err != nil && !errors.Is(err, lockcore.ErrInvalidID) {
			t.Errorf("lease %q: got %s, error %v", s, id, err)
		}
		if id, err := lockcore.ParseSessionID(s); err == nil && id.String() != s || err != nil && !errors.Is(err, lockcore.ErrInvalidID) {
			t.Errorf("session %q: got %s, error %v", s, id, err)
		}
	})
}

func TestParseLeaseID_takesOneForm(t *testing.T) {
	const session = "0123456789abcdef0123456789abcdef"
	for s, valid := range map[string]bool{
		session + ".1": true, session + ".9007199254740991": true, session + ".9007199254740992": false, session + ".0": false,
		session + ".01": false, session + ".+1": false, session + ".-1": false, session + ". 1": false, session + ".": false,
		session: false, session + ".1.1": false, session[1:] + ".1": false, "0123456789ABCDEF0123456789abcdef.1": false,
		session + "0.1": false, "g" + session[1:] + ".1": false, "": false, ".": false,
	} {
		if id, err := lockcore.ParseLeaseID(s); (err == nil) != valid || err == nil && id.String() != s {
			t.Errorf("%q: got %s, error %v, want valid %t", s, id, err, valid)
		}
	}
}
