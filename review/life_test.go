package review

import (
	"slices"
	"strings"
	"testing"
)

// class is the class of fenced as it stands.
func class(t testing.TB, s *State) Class {
	t.Helper()
	c, known := s.Class(acme, "ledger-close")
	if !known {
		t.Fatal("no class ledger-close")
	}
	return c
}

func numbered(t testing.TB, s *State, n uint64) Version {
	t.Helper()
	v, known := class(t, s).Version(n)
	if !known {
		t.Fatalf("no version %d", n)
	}
	return v
}

// What was approved is the text with that digest: an edit is a version of its own, which nobody has approved.
func TestEdit_isApprovedByNobody(t *testing.T) {
	t.Run("approved, then edited", func(t *testing.T) {
		s := NewState()
		approved := inForce(t, s, fenced)
		edited := declared(t, s, fenced+"lease: 20s\n")
		if edited.State != StateInReview || len(edited.Signatures) != 0 || len(edited.Missing()) != 1 {
			t.Errorf("the edit: %+v; want it in review without a signature", edited)
		}
		if got := s.Desired(acme)[0]; got.Version != approved.Number || got.Digest != approved.Digest || got.Posture.LeaseMS != 10_000 {
			t.Errorf("desired: %+v; want what was approved", got)
		}
	})
	t.Run("approved while an edit is in flight", func(t *testing.T) {
		s := NewState()
		shown := declared(t, s, fenced)
		edited := declared(t, s, fenced+"lease: 20s\n")
		g := signature(shown)
		g.Version = edited.Number // the page was the old one's
		refused(t, s, g, RefusedDigest)
		expect(t, "what was shown", s.Apply(signature(shown)), "", StateSigned, "signed")
		if got := s.Desired(acme)[0]; got.Digest != shown.Digest {
			t.Errorf("desired: %+v; want the text that was shown", got)
		}
		refused(t, s, signature(edited), RefusedStaleBase)
		if v := numbered(t, s, edited.Number); v.State != StateInReview || !class(t, s).Stale(v) {
			t.Errorf("the edit: %+v; want it in review, on a stale base", v)
		}
	})
	t.Run("half approved, then edited", func(t *testing.T) {
		s := NewState()
		inForce(t, s, fenced)
		change := edit(t, fenced, "group:ledger-owners", "group:new-owners")
		half := declared(t, s, change)
		expect(t, "one of two", s.Apply(signature(half)), "", StateInReview, "signature_added")
		edited := declared(t, s, change+"lease: 20s\n")
		if got := edited.Missing(); len(got) != 2 {
			t.Errorf("the edit misses %v; want both groups", got)
		}
	})
}

func TestConflict_isShownOnTheCommonBase(t *testing.T) {
	s := NewState()
	inForce(t, s, fenced)
	one := declared(t, s, fenced+"lease: 12s\n")
	two := declared(t, s, fenced+"lease: 20s\n")
	if got := class(t, s).Conflicts(one); !slices.Equal(got, []uint64{two.Number}) {
		t.Errorf("version %d conflicts with %v; want %d", one.Number, got, two.Number)
	}
	if got := class(t, s).Conflicts(two); !slices.Equal(got, []uint64{one.Number}) {
		t.Errorf("version %d conflicts with %v; want %d", two.Number, got, one.Number)
	}
	mustApply(t, s, signature(two))
	fresh := declared(t, s, fenced+"lease: 30s\n")
	for _, v := range []Version{one, numbered(t, s, two.Number), fresh} {
		if got := class(t, s).Conflicts(v); got != nil {
			t.Errorf("after the signature version %d conflicts with %v; want nothing on its base", v.Number, got)
		}
	}
}

func TestRetire_keepsTheReason(t *testing.T) {
	s := NewState()
	inForce(t, s, fenced)
	r := Retire{Tenant: acme, Class: "ledger-close", By: author, AtMS: nowMS, Reason: " "}
	refused(t, s, r, RefusedInvalid)
	r.Reason = "the ledger moved"
	got := mustApply(t, s, r)
	if v := numbered(t, s, 1); v.Decision.Reason != r.Reason || got.Events[0].Note != r.Reason {
		t.Errorf("version %+v, events %+v; want the reason in both", v.Decision, got.Events)
	}
}

var gone = TransferOwner{Tenant: acme, Class: "ledger-close", From: "ledger-owners", To: "finance",
	By:     Actor{ID: "operator", Persons: []Person{{Issuer: "https://idp.test", Subject: "operator"}}},
	Reason: "the group was dissolved", AtMS: nowMS}

func TestTransferOwner_asksTheNewGroupInPlaceOfTheOldOne(t *testing.T) {
	s := NewState()
	first := inForce(t, s, fenced)
	change := edit(t, fenced, "group:ledger-owners", "group:finance")
	open := declared(t, s, change)
	early := signature(open)
	early.SignerGroups = []Group{"finance"}
	expect(t, "the new group, too early", s.Apply(early), "", StateInReview, "signature_added")

	expect(t, "transfer", s.Apply(gone), "", StateSigned, "owner_transferred")
	if got := s.Desired(acme)[0]; got.Version != first.Number || got.Digest != first.Digest {
		t.Errorf("desired: %+v; want what was in force", got)
	}
	open = numbered(t, s, open.Number)
	if len(open.Signatures) != 0 || !slices.Equal(open.Missing(), []Group{"finance"}) {
		t.Errorf("in review: signatures %+v, missing %v; want none, and the new group", open.Signatures, open.Missing())
	}
	if r := mustApply(t, s, gone); !r.Unchanged {
		t.Errorf("again: %+v; want it unchanged", r)
	}
	expect(t, "the new group alone", s.Apply(early), "", StateSigned, "superseded signed")
	if c := class(t, s); c.Successor != "" || c.Owner() != "finance" {
		t.Errorf("owner %q, successor %q; want finance by its own statement", c.Owner(), c.Successor)
	}
	if got, err := Restore(snapshot(t, s)); err != nil || hash(t, got) != hash(t, s) {
		t.Errorf("restored: %v", err)
	}
}

func TestTransferOwner_ofWhatIsInForceNeedsTheNewGroupForEveryNextVersion(t *testing.T) {
	s := NewState()
	inForce(t, s, fenced)
	mustApply(t, s, gone)
	if got, err := Restore(snapshot(t, s)); err != nil || hash(t, got) != hash(t, s) {
		t.Fatalf("restored: %v", err)
	}
	same := declared(t, s, fenced+"lease: 20s\n") // still names the group that is gone
	if got := same.Missing(); !slices.Equal(got, []Group{"finance", "ledger-owners"}) {
		t.Errorf("missing %v; want both groups", got)
	}
	next := declared(t, s, edit(t, fenced, "group:ledger-owners", "group:new-owners"))
	if got := next.Missing(); !slices.Equal(got, []Group{"finance", "new-owners"}) {
		t.Errorf("missing %v; want the group that took over, and the one that is to own", got)
	}
}

func TestTransferOwner_refuses(t *testing.T) {
	s := NewState()
	refused(t, s, gone, RefusedUnknown)
	declared(t, s, fenced)
	refused(t, s, gone, RefusedNeverSigned)
	mustApply(t, s, signature(numbered(t, s, 1)))
	for want, changes := range map[Refusal][]func(*TransferOwner){
		RefusedInvalid: {
			func(c *TransferOwner) { c.Reason = "" }, func(c *TransferOwner) { c.Reason = strings.Repeat("x", 2001) },
			func(c *TransferOwner) { c.By = Actor{} }, func(c *TransferOwner) { c.To = "" },
			func(c *TransferOwner) { c.From = "" }, func(c *TransferOwner) { c.To = c.From },
		},
		RefusedNotOwner: {func(c *TransferOwner) { c.From = "others" }},
		RefusedUnknown:  {func(c *TransferOwner) { c.Class = "other" }, func(c *TransferOwner) { c.Tenant = "globex" }},
	} {
		for _, change := range changes {
			c := gone
			change(&c)
			refused(t, s, c, want)
		}
	}
}

func TestTransferOwner_hasOneEncoding(t *testing.T) {
	b := encoded(t, gone)
	got, err := DecodeCommand(b)
	if back, ok := got.(TransferOwner); err != nil || !ok || back.Reason != gone.Reason || back.To != gone.To {
		t.Errorf("got %+v, %v; want %+v", got, err, gone)
	}
	golden(t, "v1/transfer_owner.hex", []byte(hexLine(b)))
}

func TestTrial_answersAsApplyWouldAndChangesNothing(t *testing.T) {
	s := NewState()
	inForce(t, s, fenced)
	declared(t, s, fenced+"lease: 12s\n")
	good := declaration(t, fenced+"lease: 20s\n", class(t, s).Base())
	stale, other := good, good
	stale.Base = ""
	other.Posture.Purpose = PurposeEfficiency
	other.Digest = other.Posture.Digest()
	for name, d := range map[string]Declare{
		"new": good, "stale": stale, "another purpose": other, "in force": declaration(t, fenced, ""),
		"in review": declaration(t, fenced+"lease: 12s\n", ""), "another name": declaration(t, edit(t, fenced, "ledger-close", "other"), ""),
	} {
		before := snapshot(t, s)
		tried := s.Trial(d)
		if !slices.Equal(before, snapshot(t, s)) {
			t.Fatalf("%s: the trial changed the state", name)
		}
		again, err := Restore(before)
		if err != nil {
			t.Fatal(err)
		}
		did := again.Apply(d)
		if tried.Refused != did.Refused || tried.Version != did.Version || tried.Unchanged != did.Unchanged || tried.State != did.State ||
			!slices.Equal(tried.Missing, did.Missing) || kinds(tried) != kinds(did) {
			t.Errorf("%s: tried %+v, did %+v", name, tried, did)
		}
	}
}
