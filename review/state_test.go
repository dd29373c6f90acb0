package review

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	acme   TenantID = "acme"
	nowMS           = int64(1_800_000_000_000)
	authMS          = nowMS - 60_000
)

var (
	author = Actor{ID: "dev-admin", Persons: []Person{{Issuer: "https://idp.test", Subject: "dev-admin"}}}
	owner  = Person{Issuer: "https://idp.test", Subject: "owner", Email: "owner@dev.test"}
	second = Person{Issuer: "https://idp.test", Subject: "second", Email: "second@dev.test"}
)

// declaration is the command that declares file on base.
func declaration(t testing.TB, file string, base Digest) Declare {
	t.Helper()
	d, fs := NewDeclare(Declaration{Tenant: acme, Name: "f", File: []byte(file), Base: base, Author: author,
		At: time.UnixMilli(nowMS)}, Options{})
	if fs.Err() != nil {
		t.Fatalf("declare: %v", fs.Err())
	}
	return d
}

// signature is a signature of v by owner that nothing is wrong with.
func signature(v Version) Sign {
	return Sign{Tenant: acme, Class: v.Posture.Class, Version: v.Number, Digest: v.Digest, Signer: owner,
		SignerGroups: []Group{"everybody", v.Posture.Owner}, Ticked: v.Warnings, ClaimsVersion: ClaimsTableVersion,
		AuthTimeMS: authMS, AtMS: nowMS}
}

func mustApply(t testing.TB, s *State, c Command) Result {
	t.Helper()
	r := s.Apply(c)
	if r.Refused != "" {
		t.Fatalf("%T: refused with %s", c, r.Refused)
	}
	return r
}

// declared applies a declaration of file on the present base and gives the version.
func declared(t testing.TB, s *State, file string) Version {
	t.Helper()
	d := declaration(t, file, "")
	c, _ := s.Class(acme, d.Class)
	d.Base = c.Base()
	r := mustApply(t, s, d)
	c, _ = s.Class(acme, d.Class)
	v, _ := c.Version(r.Version)
	return v
}

// inForce declares and signs file.
func inForce(t testing.TB, s *State, file string) Version {
	t.Helper()
	v := declared(t, s, file)
	mustApply(t, s, signature(v))
	return v
}

func kinds(r Result) string {
	var list []string
	for _, e := range r.Events {
		list = append(list, string(e.Kind))
	}
	return strings.Join(list, " ")
}

func expect(t *testing.T, what string, r Result, refused Refusal, state VersionState, events string) {
	t.Helper()
	if r.Refused != refused || r.State != state || kinds(r) != events {
		t.Errorf("%s: got refusal %q, state %q, events %q; want %q, %q, %q", what, r.Refused, r.State, kinds(r), refused, state, events)
	}
}

// refused applies c and expects the refusal, and that nothing changed.
func refused(t *testing.T, s *State, c Command, want Refusal) {
	t.Helper()
	before := snapshot(t, s)
	expect(t, "refused command", s.Apply(c), want, "", "")
	if after := snapshot(t, s); !slices.Equal(before, after) {
		t.Errorf("%s: the state changed", want)
	}
}

func snapshot(t testing.TB, s *State) []byte {
	t.Helper()
	b, err := s.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return b
}

func TestVersion_goesFromDeclarationToForce(t *testing.T) {
	s := NewState()
	d := declaration(t, fenced, "")
	expect(t, "declare", s.Apply(d), "", StateInReview, "declared")
	if got := s.Desired(acme); len(got) != 0 {
		t.Errorf("desired before the signature: %+v", got)
	}
	c, _ := s.Class(acme, "ledger-close")
	expect(t, "sign", s.Apply(signature(c.Versions[0])), "", StateSigned, "signed")
	if got := s.Desired(acme); len(got) != 1 || got[0] != (Desired{Class: "ledger-close", Version: 1, Digest: d.Digest, Posture: d.Posture}) {
		t.Errorf("desired after the signature: %+v", got)
	}
	next := declared(t, s, fenced+"lease: 20s\n")
	if got := s.Desired(acme); got[0].Version != 1 {
		t.Errorf("an unsigned version changed what is desired: %+v", got)
	}
	expect(t, "sign the next", s.Apply(signature(next)), "", StateSigned, "superseded signed")
	c, _ = s.Class(acme, "ledger-close")
	if c.Versions[0].State != StateSuperseded || c.Current != 2 || s.Desired(acme)[0].Posture.LeaseMS != 20_000 {
		t.Errorf("after the second signature: %+v", c)
	}
}

func TestDeclare_makesNoVersionOfAnUnchangedStatement(t *testing.T) {
	s := NewState()
	first := declared(t, s, fenced)
	for _, step := range []string{"in review", "signed"} {
		d := declaration(t, "# spelled otherwise\n"+fenced, "sha256:"+Digest(strings.Repeat("0", 64)))
		r := mustApply(t, s, d)
		if !r.Unchanged || r.Version != 1 || len(r.Events) != 0 {
			t.Errorf("%s: got %+v", step, r)
		}
		mustApply(t, s, signature(first))
	}
}

func TestDeclare_refuses(t *testing.T) {
	s := NewState()
	signed := inForce(t, s, fenced)
	cases := []struct {
		name   string
		change func(*Declare)
		want   Refusal
	}{
		{"a stale base", func(d *Declare) { d.Base = "" }, RefusedStaleBase},
		{"another base", func(d *Declare) { d.Base = d.Digest }, RefusedStaleBase},
		{"a base of no form", func(d *Declare) { d.Base = "x" }, RefusedInvalid},
		{"another digest", func(d *Declare) { d.Digest = signed.Digest }, RefusedDigest},
		{"another class", func(d *Declare) { d.Class = "other" }, RefusedInvalid},
		{"no tenant", func(d *Declare) { d.Tenant = "" }, RefusedInvalid},
		{"no file", func(d *Declare) { d.File = nil }, RefusedInvalid},
		{"a file too large", func(d *Declare) { d.File = make([]byte, FileBytesMax+1) }, RefusedInvalid},
		{"no author", func(d *Declare) { d.Author.Persons = nil }, RefusedInvalid},
		{"an author without a name", func(d *Declare) { d.Author.ID = "" }, RefusedInvalid},
		{"a link that runs a script", func(d *Declare) { d.Source.URL = "javascript:alert(1)" }, RefusedInvalid},
		{"warnings out of order", func(d *Declare) { d.Warnings = []RuleID{"b", "a"} }, RefusedInvalid},
		{"a warning twice", func(d *Declare) { d.Warnings = []RuleID{"a", "a"} }, RefusedInvalid},
		{"another purpose", func(d *Declare) { d.Posture.Purpose = PurposeEfficiency }, RefusedPurpose},
		{"correctness and open", func(d *Declare) { d.Posture.QuorumLoss = QuorumLossOpen }, RefusedInvalid},
		{"fenced without guard", func(d *Declare) { d.Posture.Guard = "" }, RefusedInvalid},
		{"a lease just too long", func(d *Declare) { d.Posture.LeaseMS = 3_600_001 }, RefusedInvalid},
		{"a heartbeat just over half", func(d *Declare) { d.Posture.HeartbeatMS = d.Posture.LeaseMS/2 + 1 }, RefusedInvalid},
		{"waiters that nobody may be", func(d *Declare) { d.Posture.WaitMode = WaitRefuse }, RefusedInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := declaration(t, fenced+"lease: 20s\n", signed.Digest)
			before := d.Digest
			c.change(&d)
			if d.Digest == before && c.want != RefusedInvalid {
				d.Digest = d.Posture.Digest()
			}
			refused(t, s, d, c.want)
		})
	}
	mustApply(t, s, declaration(t, fenced+"lease: 20s\n", signed.Digest))
}

func TestPurpose_isFixedByTheFirstSignatureForEver(t *testing.T) {
	s := NewState()
	other := edit(t, openFile, "report-refresh", "ledger-close")
	rival := declared(t, s, other)
	inForce(t, s, fenced)
	refused(t, s, signature(rival), RefusedStaleBase)
	mustApply(t, s, Retire{Tenant: acme, Class: "ledger-close", By: author, AtMS: nowMS})
	c, _ := s.Class(acme, "ledger-close")
	refused(t, s, declaration(t, other, c.Base()), RefusedPurpose)
	back := inForce(t, s, fenced)
	if back.Number != 3 {
		t.Errorf("a retired name came back as version %d, want 3", back.Number)
	}
}

func TestSign_refuses(t *testing.T) {
	file := edit(t, fenced, "fenced", "advisory") + "lease: 5s\n"
	cases := []struct {
		name   string
		change func(*Sign)
		want   Refusal
	}{
		{"an unknown tenant", func(g *Sign) { g.Tenant = "other" }, RefusedUnknown},
		{"an unknown class", func(g *Sign) { g.Class = "other" }, RefusedUnknown},
		{"version zero", func(g *Sign) { g.Version = 0 }, RefusedUnknown},
		{"a version that is not there", func(g *Sign) { g.Version = 2 }, RefusedUnknown},
		{"a digest that was not shown", func(g *Sign) { g.Digest = DigestOf(nil) }, RefusedDigest},
		{"no digest", func(g *Sign) { g.Digest = "" }, RefusedDigest},
		{"the author", func(g *Sign) { g.Signer = author.Persons[0] }, RefusedAuthor},
		{"nobody", func(g *Sign) { g.Signer = Person{} }, RefusedInvalid},
		{"no group", func(g *Sign) { g.SignerGroups = nil }, RefusedNotOwner},
		{"another group", func(g *Sign) { g.SignerGroups = []Group{"ledger-owner", "group:ledger-owners"} }, RefusedNotOwner},
		{"a login just too old", func(g *Sign) { g.AuthTimeMS = g.AtMS - 300_001 }, RefusedStaleAuth},
		{"a login just too far ahead", func(g *Sign) { g.AuthTimeMS = g.AtMS + 30_001 }, RefusedStaleAuth},
		{"no login", func(g *Sign) { g.AuthTimeMS, g.AtMS = 0, 0 }, RefusedStaleAuth},
		{"no ticks", func(g *Sign) { g.Ticked = nil }, RefusedWarnings},
		{"one tick of two", func(g *Sign) { g.Ticked = g.Ticked[:1] }, RefusedWarnings},
		{"one tick twice", func(g *Sign) { g.Ticked = []RuleID{g.Ticked[0], g.Ticked[0]} }, RefusedWarnings},
		{"a tick too many", func(g *Sign) { g.Ticked = append(slices.Clone(g.Ticked), "open-fenced") }, RefusedWarnings},
		{"words of no version", func(g *Sign) { g.ClaimsVersion = 0 }, RefusedInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := NewState()
			g := signature(declared(t, s, file))
			c.change(&g)
			refused(t, s, g, c.want)
		})
	}
	for name, change := range map[string]func(*Sign){
		"a login just new enough":    func(g *Sign) { g.AuthTimeMS = g.AtMS - 300_000 },
		"a login just not too far":   func(g *Sign) { g.AuthTimeMS = g.AtMS + 30_000 },
		"ticks in another order":     func(g *Sign) { g.Ticked = []RuleID{RuleLeaseShort, RuleAdvisoryNoDelay} },
		"the same subject elsewhere": func(g *Sign) { g.Signer = Person{Issuer: "https://other.test", Subject: "dev-admin"} },
	} {
		s := NewState()
		g := signature(declared(t, s, file))
		change(&g)
		expect(t, name, s.Apply(g), "", StateSigned, "signed")
	}
}

func TestSign_refusesEveryPersonBehindAnAPIKey(t *testing.T) {
	s := NewState()
	d := declaration(t, fenced, "")
	d.Author = Actor{ID: "key-2", Lineage: "key-1", Persons: []Person{second, owner}}
	mustApply(t, s, d)
	c, _ := s.Class(acme, d.Class)
	g := signature(c.Versions[0])
	for _, p := range []Person{owner, second, {Issuer: "https://other.test", Subject: "x", Email: "OWNER@dev.test"}} {
		g.Signer = p
		refused(t, s, g, RefusedAuthor)
	}
	g.Signer = Person{Issuer: "https://idp.test", Subject: "third"}
	expect(t, "somebody else", s.Apply(g), "", StateSigned, "signed")
}

func TestSign_repeatedAnswersTheSame(t *testing.T) {
	s := NewState()
	v := inForce(t, s, fenced)
	before := snapshot(t, s)
	if r := mustApply(t, s, signature(v)); !r.Unchanged || r.State != StateSigned || len(r.Events) != 0 {
		t.Errorf("got %+v", r)
	}
	if !slices.Equal(before, snapshot(t, s)) {
		t.Error("the state changed")
	}
	g := signature(v)
	g.Signer = second
	refused(t, s, g, RefusedNotInReview)
}

func TestSign_ofAnOwnerChangeNeedsBothGroups(t *testing.T) {
	s := NewState()
	inForce(t, s, fenced)
	v := declared(t, s, edit(t, fenced, "group:ledger-owners", "group:new-owners"))
	if want := []Group{"ledger-owners", "new-owners"}; !slices.Equal(v.Missing(), want) {
		t.Fatalf("missing: got %v, want %v", v.Missing(), want)
	}
	g := signature(v)
	r := s.Apply(g)
	expect(t, "the new group", r, "", StateInReview, "signature_added")
	if !slices.Equal(r.Missing, []Group{"ledger-owners"}) || s.Desired(acme)[0].Version != 1 {
		t.Errorf("after one signature: missing %v, desired %+v", r.Missing, s.Desired(acme))
	}
	g.Signer = second
	if r := mustApply(t, s, g); !r.Unchanged {
		t.Errorf("a second signature of one group: %+v", r)
	}
	g.SignerGroups = []Group{"ledger-owners"}
	expect(t, "the old group", s.Apply(g), "", StateSigned, "superseded signed")
	c, _ := s.Class(acme, v.Posture.Class)
	if got := len(c.Versions[1].Signatures); got != 2 {
		t.Errorf("signatures: got %d, want 2", got)
	}
}

func TestSign_refusesAVersionWhoseBaseWasReplaced(t *testing.T) {
	s := NewState()
	first := inForce(t, s, fenced)
	rival := declared(t, s, fenced+"lease: 12s\n")
	inForce(t, s, fenced+"lease: 20s\n")
	refused(t, s, signature(rival), RefusedStaleBase)
	inForce(t, s, fenced) // the first statement again: the base's digest matches, its version does not
	c, _ := s.Class(acme, "ledger-close")
	if c.Base() != first.Digest || rival.Base != first.Digest {
		t.Fatalf("base: got %s and %s, want %s", c.Base(), rival.Base, first.Digest)
	}
	refused(t, s, signature(rival), RefusedStaleBase)
	r := mustApply(t, s, declaration(t, string(rival.File), c.Base()))
	expect(t, "declared anew", r, "", StateInReview, "withdrawn declared")
	c, _ = s.Class(acme, "ledger-close")
	expect(t, "signed on the new base", s.Apply(signature(c.Versions[r.Version-1])), "", StateSigned, "superseded signed")
}

func TestReject_needsAnOwnerAndAReason(t *testing.T) {
	s := NewState()
	v := declared(t, s, fenced)
	good := Reject{Tenant: acme, Class: "ledger-close", Version: 1, Digest: v.Digest, By: owner, Groups: []Group{"ledger-owners"},
		Reason: "the guard is not there yet", AtMS: nowMS}
	for want, changes := range map[Refusal][]func(*Reject){
		RefusedInvalid: {func(r *Reject) { r.Reason = " \n" }, func(r *Reject) { r.By = Person{} },
			func(r *Reject) { r.Reason = strings.Repeat("x", 2001) }},
		RefusedNotOwner: {func(r *Reject) { r.Groups = nil }},
		RefusedDigest:   {func(r *Reject) { r.Digest = DigestOf(nil) }},
		RefusedUnknown:  {func(r *Reject) { r.Version = 2 }, func(r *Reject) { r.Class = "x" }},
	} {
		for _, change := range changes {
			r := good
			change(&r)
			refused(t, s, r, want)
		}
	}
	expect(t, "reject", s.Apply(good), "", StateRejected, "rejected")
	refused(t, s, good, RefusedNotInReview)
	refused(t, s, signature(v), RefusedNotInReview)
	if again := declared(t, s, fenced); again.Number != 2 {
		t.Errorf("declared again: got version %d, want 2", again.Number)
	}
}

func TestWithdraw_isForTheAuthor(t *testing.T) {
	s := NewState()
	d := declaration(t, fenced, "")
	d.Author = Actor{ID: "key-2", Lineage: "key-1", Persons: []Person{second}}
	mustApply(t, s, d)
	w := Withdraw{Tenant: acme, Class: d.Class, Version: 1, By: author, AtMS: nowMS}
	refused(t, s, w, RefusedNotAuthor)
	w.By = Actor{}
	refused(t, s, w, RefusedInvalid)
	w.By = Actor{ID: "key-3", Lineage: "key-1", Persons: []Person{owner}}
	expect(t, "the API key's successor", s.Apply(w), "", StateWithdrawn, "withdrawn")
	w.By = Actor{ID: "second", Persons: []Person{second}}
	if r := mustApply(t, s, w); !r.Unchanged {
		t.Errorf("withdrawn again: %+v", r)
	}
	v := inForce(t, s, fenced)
	refused(t, s, Withdraw{Tenant: acme, Class: d.Class, Version: v.Number, By: author, AtMS: nowMS}, RefusedNotInReview)
}

func TestRetire_endsTheClassAndWhatIsInReview(t *testing.T) {
	s := NewState()
	r := Retire{Tenant: acme, Class: "ledger-close", By: author, AtMS: nowMS}
	refused(t, s, r, RefusedUnknown)
	declared(t, s, fenced)
	refused(t, s, r, RefusedNeverSigned)
	inForce(t, s, fenced)
	rival := declared(t, s, fenced+"lease: 20s\n")
	expect(t, "retire", s.Apply(r), "", StateRetired, "withdrawn retired")
	if got := s.Desired(acme); len(got) != 1 || !got[0].Retired || got[0].Version != 1 {
		t.Errorf("desired: %+v", got)
	}
	if again := mustApply(t, s, r); !again.Unchanged {
		t.Errorf("retired again: %+v", again)
	}
	refused(t, s, signature(rival), RefusedNotInReview)
	expect(t, "brought back", s.Apply(signature(declared(t, s, fenced))), "", StateSigned, "signed")
	if got := s.Desired(acme); got[0].Retired || got[0].Version != 3 {
		t.Errorf("desired: %+v", got)
	}
}

func TestDeclare_boundsWhatIsInReview(t *testing.T) {
	s := NewState()
	for i := range InReviewMax {
		v := declared(t, s, fenced+"lease: "+FormatDuration(time.Duration(10_000+i)*time.Millisecond, false)+"\n")
		if v.Number != uint64(i)+1 {
			t.Fatalf("version: got %d, want %d", v.Number, i+1)
		}
	}
	c, _ := s.Class(acme, "ledger-close")
	if got := len(c.InReview()); got != InReviewMax {
		t.Errorf("in review: got %d, want %d", got, InReviewMax)
	}
	more := declaration(t, fenced+"lease: 20s\n", "")
	refused(t, s, more, RefusedTooMany)
	mustApply(t, s, Withdraw{Tenant: acme, Class: "ledger-close", Version: 1, By: author, AtMS: nowMS})
	mustApply(t, s, more)
}

func TestClass_handedOutStaysAsItWas(t *testing.T) {
	s := NewState()
	v := declared(t, s, fenced)
	c, _ := s.Class(acme, "ledger-close")
	mustApply(t, s, signature(v))
	if c.Versions[0].State != StateInReview || c.Current != 0 || len(c.Versions[0].Signatures) != 0 {
		t.Errorf("the copy changed: %+v", c)
	}
}

func TestClasses_comeInOrder(t *testing.T) {
	s := NewState()
	for _, name := range []string{"c", "a", "b-1", "b"} {
		inForce(t, s, edit(t, fenced, "ledger-close", name))
	}
	var got []ClassName
	for c := range s.Classes(acme) {
		got = append(got, c.Name)
	}
	if want := []ClassName{"a", "b", "b-1", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(s.Desired("other")) != 0 || !slices.Equal(s.Tenants(), []TenantID{acme}) {
		t.Errorf("another tenant's classes: %v of %v", s.Desired("other"), s.Tenants())
	}
}
