package audit_test

import (
	"encoding/hex"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

var updateGolden = flag.Bool("update-golden", false, "write golden files anew")

// The leaf's bytes are what every root ever published commits to: this file changes only beside a new version.
func TestLeaf_hasItsBytes(t *testing.T) {
	e := granted(7, 5, 1, acme)
	e.Reason, e.Count, e.Unprotected, e.AtMS = "held", 9, true, -1
	gap := audit.GapLeaf(3, 7, 5, 1<<40)
	got := hex.EncodeToString(audit.EventLeaf(3, audit.RowPosition{Log: 7, Index: 5, Ordinal: 1}, e, salt(7, 5))) + "\n" +
		hex.EncodeToString(audit.EventLeaf(0, audit.RowPosition{}, audit.Event{}, [16]byte{})) + "\n" + hex.EncodeToString(gap) + "\n"
	const file = "testdata/leaf-v1.txt"
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("leaf bytes: got\n%s, want\n%s", got, want)
	}
}

// change gives a field another value than it has.
func change(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(field.String() + "x")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Int64:
		field.SetInt(field.Int() + 1)
	default:
		field.SetUint(field.Uint() + 1)
	}
}

func TestLeaf_commitsToEveryField(t *testing.T) {
	p := audit.RowPosition{Log: 1, Index: 5, Ordinal: 1}
	leaf := func(incarnation uint64, p audit.RowPosition, e audit.Event, salt [16]byte) string {
		return string(audit.EventLeaf(incarnation, p, e, salt))
	}
	base := leaf(1, p, granted(1, 5, 1, acme), salt(1, 5))
	seen := map[string]string{base: "nothing"}
	note := func(name, got string) {
		if other, ok := seen[got]; ok {
			t.Errorf("%s changed: got the same leaf as with %s changed", name, other)
		}
		seen[got] = name
	}
	event := reflect.TypeOf(audit.Event{})
	for i := range event.NumField() {
		e := granted(1, 5, 1, acme)
		change(reflect.ValueOf(&e).Elem().Field(i))
		note(event.Field(i).Name, leaf(1, p, e, salt(1, 5)))
	}
	for i := range reflect.TypeOf(p).NumField() {
		q := p
		change(reflect.ValueOf(&q).Elem().Field(i))
		note(reflect.TypeOf(p).Field(i).Name, leaf(1, q, granted(1, 5, 1, acme), salt(1, 5)))
	}
	note("incarnation", leaf(2, p, granted(1, 5, 1, acme), salt(1, 5)))
	note("salt", leaf(1, p, granted(1, 5, 1, acme), salt(1, 6)))
	for name, move := range map[string]func(*audit.Event){ // texts that join to the same bytes
		"class and key": func(e *audit.Event) { e.Class, e.Key = e.Class+e.Key, "" },
		"by and note":   func(e *audit.Event) { e.By, e.Note = e.By+e.Note, "" },
	} {
		e := granted(1, 5, 1, acme)
		move(&e)
		note(name, leaf(1, p, e, salt(1, 5)))
	}
}

func TestLeaf_hidesPersonalText(t *testing.T) {
	e := granted(1, 5, 1, acme)
	leaf := string(audit.EventLeaf(1, audit.RowPosition{Log: 1, Index: 5, Ordinal: 1}, e, salt(1, 5)))
	for _, text := range []string{e.Holder, e.By, e.Note} {
		if strings.Contains(leaf, text) {
			t.Errorf("leaf: got one that contains %q", text)
		}
	}
}
