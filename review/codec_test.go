package review

import (
	"bytes"
	"encoding/hex"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// samples is a run of every command, each of which is accepted in turn.
func samples(t testing.TB) []Command {
	t.Helper()
	first := declaration(t, fenced, "")
	first.Source = Source{Repo: "acme/ledger", Commit: "0123abcd", URL: "https://git.test/acme/ledger"}
	warned := edit(t, fenced, "fenced", "advisory") + "lease: 5s\n"
	next := declaration(t, warned, first.Digest)
	next.Author = Actor{ID: "key-2", Lineage: "key-1", Persons: []Person{second}}
	third := declaration(t, fenced+"lease: 20s\n", next.Digest)
	sign := func(d Declare, n uint64) Sign {
		return signature(Version{Number: n, Digest: d.Digest, Posture: d.Posture, Warnings: d.Warnings})
	}
	return []Command{
		first, sign(first, 1), next, sign(next, 2), third,
		Reject{Tenant: acme, Class: first.Class, Version: 3, Digest: third.Digest, By: owner, Groups: []Group{"ledger-owners"},
			Reason: "too long", AtMS: nowMS},
		third, Withdraw{Tenant: acme, Class: first.Class, Version: 4, By: author, AtMS: nowMS},
		Retire{Tenant: acme, Class: first.Class, By: author, AtMS: nowMS},
	}
}

func encoded(t testing.TB, c Command) []byte {
	t.Helper()
	b, err := EncodeCommand(c)
	if err != nil {
		t.Fatalf("encode %T: %v", c, err)
	}
	return b
}

// Bytes of format 1 must be read for ever, and these commands must be written so for as long as the format is 1.
func TestFormat1_isGolden(t *testing.T) {
	s := NewState()
	var lines strings.Builder
	for _, c := range samples(t) {
		lines.WriteString(hex.EncodeToString(encoded(t, c)) + "\n")
		mustApply(t, s, c)
	}
	golden(t, filepath.Join("v1", "commands.hex"), []byte(lines.String()))
	golden(t, filepath.Join("v1", "snapshot.hex"), []byte(hex.EncodeToString(snapshot(t, s))+"\n"))
}

func TestFormat1_opensForEver(t *testing.T) {
	s := NewState()
	for line := range strings.Lines(string(read(t, filepath.Join("testdata", "v1", "commands.hex")))) {
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("fixture: %v", err)
		}
		c, err := DecodeCommand(b)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		mustApply(t, s, c)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(read(t, filepath.Join("testdata", "v1", "snapshot.hex")))))
	if err != nil {
		t.Fatalf("fixture: %v", err)
	}
	restored, err := Restore(b)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if got, want := hash(t, restored), hash(t, s); got != want {
		t.Errorf("hash: got %x, want %x", got, want)
	}
}

func hash(t testing.TB, s *State) [32]byte {
	t.Helper()
	h, err := s.Hash()
	if err != nil {
		t.Fatalf("hash: %v", err)
	}
	return h
}

func TestDecodeCommand_readsWhatWasWritten(t *testing.T) {
	for _, c := range samples(t) {
		got, err := DecodeCommand(encoded(t, c))
		if err != nil || !bytes.Equal(encoded(t, got), encoded(t, c)) || reflect.TypeOf(got) != reflect.TypeOf(c) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, c)
		}
	}
}

func TestDecodeCommand_refusesEveryOtherEncoding(t *testing.T) {
	body := func(kind int, fields string) []byte {
		b, err := hex.DecodeString(fields)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{0x83, 0x01, byte(kind)}, b...)
	}
	retire := encoded(t, Retire{Tenant: acme, Class: "c", By: author, AtMS: 1})
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"one byte too many":  append(bytes.Clone(retire), 0),
		"one byte too few":   retire[:len(retire)-1],
		"another format":     append([]byte{0x83, 0x02}, retire[2:]...),
		"unknown kind":       body(9, "a0"),
		"kind zero":          body(0, "a0"),
		"unknown field":      body(5, "a4016161026163186300"+"0401"),
		"repeated field":     body(5, "a2016161016162"),
		"text for a number":  body(5, "a1046131"),
		"fields left out":    body(5, "a10161"+"61"),
		"indefinite lengths": body(5, "bf016161ff"),
		"a tag":              body(5, "c0a0"),
		"too large":          make([]byte, CommandBytesMax+1),
	} {
		if c, err := DecodeCommand(b); !errors.Is(err, ErrInvalidCommand) {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
}

func TestRestore_atAnyPointGivesAnEqualFuture(t *testing.T) {
	all := samples(t)
	for cut := range len(all) + 1 {
		s := NewState()
		for _, c := range all[:cut] {
			mustApply(t, s, c)
		}
		restored, err := Restore(snapshot(t, s))
		if err != nil {
			t.Fatalf("restore after %d: %v", cut, err)
		}
		for i, c := range all[cut:] {
			a, b := s.Apply(c), restored.Apply(c)
			if !reflect.DeepEqual(a, b) || hash(t, s) != hash(t, restored) {
				t.Fatalf("restored after %d, command %d: got %+v, want %+v", cut, cut+i, b, a)
			}
		}
	}
}

func TestRestore_refusesWhatTheRulesCouldNotHaveMade(t *testing.T) {
	s := NewState()
	for _, c := range samples(t)[:5] {
		mustApply(t, s, c)
	}
	good := snapshot(t, s)
	var head snapshotHead
	rest, err := decMode.UnmarshalFirst(good, &head)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Class){
		"no tenant":              func(c *Class) { c.Tenant = "" },
		"another name":           func(c *Class) { c.Name = "other" },
		"another purpose":        func(c *Class) { c.Purpose = PurposeEfficiency },
		"another current":        func(c *Class) { c.Current = 1 },
		"current not there":      func(c *Class) { c.Current = 9 },
		"retired but signed":     func(c *Class) { c.Retired = true },
		"no versions":            func(c *Class) { c.Versions = nil },
		"a gap":                  func(c *Class) { c.Versions = c.Versions[1:] },
		"unknown state":          func(c *Class) { c.Versions[2].State = "x" },
		"signed by nobody":       func(c *Class) { c.Versions[1].Signatures = nil },
		"signed by its author":   func(c *Class) { c.Versions[1].Signatures[0].Signer = second },
		"signed without warning": func(c *Class) { c.Versions[1].Signatures[0].Ticked = nil },
		"another posture":        func(c *Class) { c.Versions[1].Posture.LeaseMS++ },
		"another digest":         func(c *Class) { c.Versions[2].Digest = c.Versions[1].Digest },
		"a base to come":         func(c *Class) { c.Versions[0].BaseNumber = 2 },
		"owner need not sign":    func(c *Class) { c.Versions[2].Required = []Group{"x"} },
		"two signed":             func(c *Class) { c.Versions[0].State = StateSigned },
		"nobody wrote it":        func(c *Class) { c.Versions[2].Author = Actor{} },
	} {
		var c Class
		if err := cbor.Unmarshal(rest, &c); err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		b, err := encMode.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(append(bytes.Clone(good[:len(good)-len(rest)]), b...)); !errors.Is(err, ErrInvalidSnapshot) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalidSnapshot)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "cut short": good[:len(good)-1], "one byte too many": append(bytes.Clone(good), 0),
		"one class too few": good[:len(good)-len(rest)],
		"a class twice":     append(append([]byte{0xa2, 1, 1, 2, 2}, rest...), rest...),
		"another format":    append([]byte{0xa2, 1, 2, 2, 1}, rest...),
	} {
		if _, err := Restore(b); !errors.Is(err, ErrInvalidSnapshot) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalidSnapshot)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range samples(f) {
		f.Add(encoded(f, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommand(b)
		if err != nil {
			return
		}
		if !bytes.Equal(encoded(t, c), b) {
			t.Error("two encodings of one command")
		}
		s := NewState()
		s.Apply(c)
		if _, err := Restore(snapshot(t, s)); err != nil {
			t.Errorf("the command's state cannot be restored: %v", err)
		}
	})
}

func FuzzRestore(f *testing.F) {
	s := NewState()
	f.Add(snapshot(f, s))
	for _, c := range samples(f) {
		mustApply(f, s, c)
		f.Add(snapshot(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Restore(b)
		if err == nil && !bytes.Equal(snapshot(t, s), b) {
			t.Error("two encodings of one state")
		}
	})
}
