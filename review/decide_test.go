package review

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func hexLine(b []byte) string { return hex.EncodeToString(b) + "\n" }

// reviewers are two people of the owner group, and one who answers for what is declared.
var reviewers = []Person{owner, second, {Issuer: "https://other.test", Subject: "x", Email: "declarer@dev.test"}}

// decider draws the decision of one of the reviewers about one of the versions that are there.
func decider(t *rapid.T, versions []Version, label string) Command {
	v := rapid.SampledFrom(versions).Draw(t, label+" version")
	who := rapid.SampledFrom(reviewers).Draw(t, label+" who")
	if rapid.Bool().Draw(t, label+" says no") {
		return Reject{Tenant: acme, Class: v.Posture.Class, Version: v.Number, Digest: v.Digest, By: who, Groups: []Group{v.Posture.Owner},
			Reason: "no", AtMS: nowMS}
	}
	g := signature(v)
	g.Signer = who
	return g
}

// Two who decide about one class at the same moment decide one after the other in the log: the first decision that stands
// is the only one, and every other is told so without anything being changed.
func TestDecisions_ofTwoAtOnceHaveOneWinner(t *testing.T) {
	outcomes := map[Refusal]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := NewState()
		d := declarationOf(t, fenced)
		d.Author = Actor{ID: "key-1", Lineage: "key-1", Persons: []Person{{Issuer: "https://idp.test", Subject: "d", Email: "Declarer@dev.test"}}}
		s.Apply(d)
		rival := declarationOf(t, fenced+"lease: 20s\n")
		if rapid.Bool().Draw(t, "two proposals") {
			s.Apply(rival)
		}
		c, _ := s.Class(acme, "ledger-close")
		first, then := decider(t, c.Versions, "one"), decider(t, c.Versions, "two")
		a, b := s.Apply(first), s.Apply(then)
		outcomes[a.Refused]++
		outcomes[b.Refused]++
		restorable(t, s)
		if signed := signedVersions(t, s); signed > 1 {
			t.Fatalf("%d versions are signed", signed)
		}
		if a.Refused != "" || b.Unchanged {
			return // nothing was decided first; or the same person asked twice
		}
		if sameVersion(first, then) && b.Refused == "" {
			t.Fatalf("both decided: %+v gave %+v, then %+v gave %+v", first, a, then, b)
		}
		if _, yes := first.(Sign); yes && b.Refused == "" {
			if _, no := then.(Reject); !no {
				t.Fatalf("two proposals on one base are signed: %+v and %+v", first, then)
			}
		}
	})
	for _, want := range []Refusal{"", RefusedNotInReview, RefusedStaleBase, RefusedAuthor} {
		if outcomes[want] == 0 {
			t.Errorf("outcome %q never occurred: %v", want, outcomes)
		}
	}
	for refusal := range outcomes {
		if !slices.Contains([]Refusal{"", RefusedNotInReview, RefusedStaleBase, RefusedAuthor}, refusal) {
			t.Errorf("a decision was refused with %q", refusal)
		}
	}
}

func sameVersion(a, b Command) bool { return decidedVersion(a) == decidedVersion(b) }

func decidedVersion(c Command) uint64 {
	switch c := c.(type) {
	case Sign:
		return c.Version
	case Reject:
		return c.Version
	}
	return 0
}

// declarationOf is declaration for a property.
func declarationOf(t *rapid.T, file string) Declare {
	t.Helper()
	f, fs := Parse("f", []byte(file), Options{})
	if fs.Err() != nil {
		t.Fatalf("declare: %v", fs.Err())
	}
	return Declare{Tenant: acme, Class: f.Class, File: []byte(file), Posture: f.Posture(), Digest: f.Digest(),
		Warnings: fs.Warnings().Rules(), Author: author, AtMS: nowMS}
}

// restorable holds the whole state against the rules of a class at rest.
func restorable(t *rapid.T, s *State) {
	t.Helper()
	b, err := s.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if _, err := Restore(b); err != nil {
		t.Fatalf("the state contradicts its rules: %v", err)
	}
}

// signedVersions counts the versions that are signed, and holds every signature against the rules.
func signedVersions(t *rapid.T, s *State) (signed int) {
	t.Helper()
	for c := range s.Classes(acme) {
		for _, v := range c.Versions {
			if v.State == StateSigned {
				signed++
			}
			for _, g := range v.Signatures {
				if v.Author.Includes(g.Signer) || len(common(v.Required, g.Groups)) == 0 || !slices.Equal(g.Ticked, v.Warnings) {
					t.Fatalf("version %d has the signature %+v", v.Number, g)
				}
			}
		}
	}
	return signed
}

// drawCommand draws a command about one class that fits the state often enough.
func drawCommand(t *rapid.T, s *State) Command {
	files := []string{fenced, fenced + "lease: 20s\n", fenced + "lease: 5s\n"}
	for _, g := range []string{"b-owners", "c-owners"} {
		files = append(files, fmt.Sprintf("format: 1\nclass: ledger-close\nresource: r\nowner: group:%s\npurpose: correctness\n"+
			"enforcement: advisory\nquorum_loss: closed\n", g))
	}
	c, _ := s.Class(acme, "ledger-close")
	groups := []Group{"ledger-owners", "b-owners", "c-owners"}
	who := rapid.SampledFrom(reviewers).Draw(t, "who")
	by := Actor{ID: who.Shown(), Persons: []Person{who}}
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if kind < 3 || len(c.Versions) == 0 {
		d := declarationOf(t, rapid.SampledFrom(files).Draw(t, "file"))
		d.Author, d.Base = by, c.Base()
		return d
	}
	v := rapid.SampledFrom(c.Versions).Draw(t, "version")
	switch kind {
	case 3:
		return Reject{Tenant: acme, Class: c.Name, Version: v.Number, Digest: v.Digest, By: who, Groups: groups, Reason: "no", AtMS: nowMS}
	case 4:
		return Withdraw{Tenant: acme, Class: c.Name, Version: v.Number, By: by, AtMS: nowMS}
	case 5:
		if rapid.IntRange(0, 3).Draw(t, "retire") > 0 {
			break
		}
		return Retire{Tenant: acme, Class: c.Name, By: by, AtMS: nowMS}
	case 6:
		return TransferOwner{Tenant: acme, Class: c.Name, From: rapid.SampledFrom(groups).Draw(t, "from"),
			To: rapid.SampledFrom(groups).Draw(t, "to"), By: by, Reason: "gone", AtMS: nowMS}
	}
	g := signature(v)
	g.Signer, g.SignerGroups = who, rapid.SliceOfDistinct(rapid.SampledFrom(groups), func(g Group) Group { return g }).Draw(t, "groups")
	return g
}

// However commands follow each other: at most one version is signed, by everybody who must and by nobody who wrote it, its
// number only grows, what is refused changes nothing, and the state can be restored.
func TestState_keepsTheRulesOfSigning(t *testing.T) {
	outcomes := map[Refusal]int{}
	kindsMet := map[EventKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := NewState()
		current := uint64(0)
		for range 25 {
			before, _ := s.Hash()
			c := drawCommand(t, s)
			r := s.Apply(c)
			outcomes[r.Refused]++
			for _, e := range r.Events {
				kindsMet[e.Kind]++
			}
			if after, _ := s.Hash(); (r.Refused != "" || r.Unchanged) && after != before {
				t.Fatalf("%+v: %+v, and the state changed", c, r)
			}
			if signedVersions(t, s) > 1 {
				t.Fatalf("%+v: more than one version is signed", c)
			}
			now, _ := s.Class(acme, "ledger-close")
			if now.Current < current {
				t.Fatalf("%+v: version %d was signed after version %d", c, now.Current, current)
			}
			current = now.Current
		}
		restorable(t, s)
	})
	for _, want := range []Refusal{"", RefusedAuthor, RefusedNotOwner, RefusedStaleBase, RefusedNotInReview, RefusedNotAuthor} {
		if outcomes[want] == 0 {
			t.Errorf("outcome %q never occurred: %v", want, outcomes)
		}
	}
	for _, want := range []EventKind{EventDeclared, EventSignatureAdded, EventSigned, EventRejected, EventWithdrawn, EventSuperseded,
		EventRetired, EventOwnerChanged} {
		if kindsMet[want] == 0 {
			t.Errorf("event %q never occurred: %v", want, kindsMet)
		}
	}
}
