package review

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fenced is a file without findings. Its lines are numbered in the cases below: class is line 2, wait line 9.
const fenced = `format: 1
class: ledger-close
resource: postgres:ledger
owner: group:ledger-owners
purpose: correctness
enforcement: fenced
quorum_loss: closed
guard: column fence
wait:
  mode: queue
`

// open is an efficiency class, so that more may be declared.
const openFile = `format: 1
class: report-refresh
resource: bucket:reports
owner: group:report-owners
purpose: efficiency
enforcement: advisory
quorum_loss: open
`

// edit replaces one piece of a file, which must be there.
func edit(t testing.TB, file, old, with string) string {
	t.Helper()
	if !strings.Contains(file, old) {
		t.Fatalf("the file has no %q", old)
	}
	return strings.Replace(file, old, with, 1)
}

// told writes findings shortly: line:col rule.
func told(fs Findings) string {
	var lines []string
	for _, f := range fs {
		lines = append(lines, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Rule))
	}
	return strings.Join(lines, ", ")
}

func TestParse_reportsEachBrokenRuleWhereItStands(t *testing.T) {
	long := strings.Repeat("x", 513)
	cases := []struct{ name, file, want string }{
		{"nothing wrong", fenced, ""},
		{"nothing wrong, open", openFile, ""},
		{"empty", "", "1:1 empty-file"},
		{"only a comment", "# nothing\n", "1:1 empty-file"},
		{"null document", "---\n", "2:1 not-a-mapping"},
		{"list", "- a\n", "1:1 not-a-mapping"},
		{"text", "hello\n", "1:1 not-a-mapping"},
		{"not YAML", "format: [1\n", "2:1 syntax"},
		{"JSON cut short", `{"format": 1`, "2:1 syntax"},
		{"not UTF-8", "format: \"\xff\"\n", "1:1 file-encoding"},
		{"UTF-16", "\xff\xfef\x00", "1:1 file-encoding"},
		{"two documents", fenced + "---\nformat: 1\n", "11:1 several-documents"},
		{"broken second document", fenced + "---\n[\n", "13:1 syntax"},
		{"as large as allowed", fenced + "#" + strings.Repeat("x", FileBytesMax-len(fenced)-1), ""},
		{"one byte too large", fenced + "#" + strings.Repeat("x", FileBytesMax-len(fenced)), "1:1 file-too-large"},
		{"unknown field", fenced + "leese: 10s\n", "11:1 unknown-field"},
		{"unknown field of wait", fenced + "  max_waits: 3\n", "11:3 unknown-field"},
		{"field of another case", edit(t, fenced, "guard:", "Guard:"), "6:14 fenced-without-guard, 8:1 unknown-field"},
		{"list as a field's name", fenced + "? [a]\n: 1\n", "11:3 unknown-field"},
		{"field twice", fenced + "guard: other\n", "11:1 duplicate-field"},
		{"field twice with one value", fenced + "format: 1\n", "11:1 duplicate-field"},
		{"anchor", edit(t, fenced, "guard: c", "guard: &g c"), "8:8 anchor"},
		{"alias", edit(t, fenced, "guard: column fence", "guard: &g a\ndescription: *g"), "8:8 anchor, 9:14 alias"},
		{"merge key", fenced + "<<: {lease: 10s}\n", "11:1 merge-key"},
		{"quoted merge key", fenced + "\"<<\": {lease: 10s}\n", "11:1 unknown-field"},
		{"tag", edit(t, fenced, "guard: c", "guard: !!str c"), "8:8 explicit-tag"},
		{"own tag", edit(t, fenced, "format: 1", "format: !v 1"), "1:9 explicit-tag"},
		{"no format", edit(t, fenced, "format: 1\n", ""), "1:1 missing-field"},
		{"no class", edit(t, fenced, "class: ledger-close\n", ""), "1:1 missing-field"},
		{"no resource", edit(t, fenced, "resource: postgres:ledger\n", ""), "1:1 missing-field"},
		{"no owner", edit(t, fenced, "owner: group:ledger-owners\n", ""), "1:1 missing-field"},
		{"no purpose", edit(t, fenced, "purpose: correctness\n", ""), "1:1 missing-field"},
		{"no enforcement", edit(t, fenced, "enforcement: fenced\n", ""), "1:1 missing-field"},
		{"no quorum_loss", edit(t, fenced, "quorum_loss: closed\n", ""), "1:1 missing-field"},
		{"empty purpose", edit(t, fenced, "purpose: correctness", "purpose:"), "5:9 missing-field"},
		{"null lease", fenced + "lease: ~\n", "11:8 wrong-type"},
		{"format 2", edit(t, fenced, "format: 1", "format: 2"), "1:9 unknown-format"},
		{"format in quotes", edit(t, fenced, "format: 1", "format: '1'"), "1:9 unknown-format"},
		{"format in hexadecimal", edit(t, fenced, "format: 1", "format: 0x1"), "1:9 unknown-format"},
		{"name of 63", edit(t, fenced, "ledger-close", strings.Repeat("a", 63)), ""},
		{"name of 64", edit(t, fenced, "ledger-close", strings.Repeat("a", 64)), "2:8 bad-name"},
		{"name of none", edit(t, fenced, "ledger-close", "''"), "2:8 bad-name"},
		{"name with capitals", edit(t, fenced, "ledger-close", "Ledger"), "2:8 bad-name"},
		{"name with a line break", edit(t, fenced, "ledger-close", "\"ledger\\n\""), "2:8 bad-name"},
		{"name that is a number", edit(t, fenced, "ledger-close", "123"), "2:8 wrong-type"},
		{"name that is a number in quotes", edit(t, fenced, "ledger-close", "'123'"), ""},
		{"resource of 512", edit(t, fenced, "postgres:ledger", long[1:]), ""},
		{"resource of 513", edit(t, fenced, "postgres:ledger", long), "3:11 bad-text"},
		{"blank resource", edit(t, fenced, "postgres:ledger", "' '"), "3:11 bad-text"},
		{"resource that is a list", edit(t, fenced, "postgres:ledger", "[a]"), "3:11 wrong-type"},
		{"resource with a turned direction", edit(t, fenced, "postgres:ledger", `"a\u202eb"`), "3:11 bad-text"},
		{"resource with a raw turned direction", edit(t, fenced, "postgres:ledger", "a\u202eb"), "3:11 bad-text"},
		{"guard on two lines", edit(t, fenced, "column fence", `"a\nb"`), "8:8 bad-text"},
		{"description on two lines", fenced + "description: \"a\\nb\"\n", ""},
		{"owner without group", edit(t, fenced, "group:ledger-owners", "ledger-owners"), "4:8 bad-owner"},
		{"owner that is nobody", edit(t, fenced, "group:ledger-owners", "'group:'"), "4:8 bad-owner"},
		{"owner with a space at its end", edit(t, fenced, "group:ledger-owners", "'group:a '"), "4:8 bad-owner"},
		{"another purpose", edit(t, fenced, "purpose: correctness", "purpose: Correctness"), "5:10 unknown-value"},
		{"another enforcement", edit(t, fenced, "enforcement: fenced", "enforcement: none"), "6:14 unknown-value"},
		{"another quorum_loss", edit(t, fenced, "quorum_loss: closed", "quorum_loss: true"), "7:14 unknown-value"},
		{"correctness and open", edit(t, fenced, "quorum_loss: closed", "quorum_loss: open"), "7:14 correctness-open"},
		{"fenced without guard", edit(t, fenced, "guard: column fence\n", ""), "6:14 fenced-without-guard"},
		{"fenced with a blank guard", edit(t, fenced, "column fence", "''"), "8:8 bad-text"},
		{"heartbeat of half", fenced + "heartbeat: 5s\n", ""},
		{"heartbeat over half", fenced + "heartbeat: 5001ms\n", "11:12 heartbeat-too-long"},
		{"heartbeat over half of an odd lease", openFile + "lease: 20001ms\nheartbeat: 10001ms\n", "9:12 heartbeat-too-long"},
		{"heartbeat beside a bad lease", openFile + "lease: 5\nheartbeat: 10s\n", "8:8 bare-number"},
		{"no max_waiters", edit(t, fenced, "mode: queue", "max_waiters: 0"), "10:16 out-of-range"},
		{"least max_waiters", edit(t, fenced, "mode: queue", "max_waiters: 1"), ""},
		{"most max_waiters", edit(t, fenced, "mode: queue", "max_waiters: 100000"), ""},
		{"over max_waiters", edit(t, fenced, "mode: queue", "max_waiters: 100001"), "10:16 out-of-range"},
		{"max_waiters below zero", edit(t, fenced, "mode: queue", "max_waiters: -1"), "10:16 out-of-range"},
		{"max_waiters with a fraction", edit(t, fenced, "mode: queue", "max_waiters: 1.5"), "10:16 out-of-range"},
		{"max_waiters of another spelling", edit(t, fenced, "mode: queue", "max_waiters: 1_000"), "10:16 out-of-range"},
		{"max_waiters in octal", edit(t, fenced, "mode: queue", "max_waiters: 010"), "10:16 out-of-range"},
		{"max_waiters as text", edit(t, fenced, "mode: queue", "max_waiters: many"), "10:16 wrong-type"},
		{"huge max_waiters", edit(t, fenced, "mode: queue", "max_waiters: 99999999999999999999"), "10:16 out-of-range"},
		{"refuse", edit(t, fenced, "queue", "refuse"), ""},
		{"refuse with max_wait", edit(t, fenced, "queue", "refuse\n  max_wait: 30s"), "11:13 refuse-with-limits"},
		{"refuse with both", edit(t, fenced, "queue", "refuse\n  max_wait: 30s\n  max_waiters: 5"),
			"11:13 refuse-with-limits, 12:16 refuse-with-limits"},
		{"another mode", edit(t, fenced, "mode: queue", "mode: spin"), "10:9 unknown-value"},
		{"wait that is text", edit(t, fenced, "wait:\n  mode: queue", "wait: queue"), "9:7 wrong-type"},
		{"day", fenced + "review_by: 2028-02-29\n", ""},
		{"day in quotes", fenced + "review_by: '2027-06-30'\n", ""},
		{"no such day", fenced + "review_by: 2027-02-29\n", "11:12 bad-date"},
		{"day with an hour", fenced + "review_by: 2027-06-30T10:00:00Z\n", "11:12 bad-date"},
		{"day of another form", fenced + "review_by: 30.6.2027\n", "11:12 bad-date"},
		{"short lease", openFile + "lease: 9999ms\n", "8:8 lease-short"},
		{"lease that is just not short", openFile + "lease: 10s\n", ""},
		{"lease just shorter than max_wait", openFile + "lease: 29999ms\n", ""},
		{"lease as long as max_wait", openFile + "lease: 30s\n", "8:8 lease-long"},
		{"lease and delay as long as max_wait", openFile + "lease: 20s\nlock_delay: 10s\n", "8:8 lease-long"},
		{"long lease that nobody waits for", openFile + "lease: 1h\nwait: {mode: refuse}\n", ""},
		{"long lease, unlimited wait", openFile + "lease: 1h\nwait: {max_wait: unlimited}\n", ""},
		{"efficiency, fenced, open", edit(t, openFile, "advisory", "fenced\nguard: g"), "8:14 open-fenced"},
		{"correctness, advisory", edit(t, fenced, "fenced", "advisory"), "6:14 advisory-no-delay"},
		{"correctness, advisory, delay of zero", edit(t, fenced, "fenced", "advisory\nlock_delay: 0s"), "7:13 advisory-no-delay"},
		{"correctness, advisory, delay", edit(t, fenced, "fenced", "advisory\nlock_delay: 1ms"), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, fs := Parse("f.yaml", []byte(c.file), Options{})
			if got := told(fs); got != c.want {
				t.Errorf("got  %q\nwant %q\n%s", got, c.want, fs.Text())
			}
			for _, f := range fs {
				if f.File != "f.yaml" || f.Message == "" || f.Remedy == "" || !f.Rule.valid() {
					t.Errorf("finding is not complete: %+v", f)
				}
			}
		})
	}
}

func TestParse_boundsEachDuration(t *testing.T) {
	fields := []struct {
		path            string
		accept, refused []string // refused as out of range
		unlimited       bool
	}{
		{"lease", []string{"1s", "1000ms", "3600s", "60m", "1h"}, []string{"0s", "999ms", "3600001ms", "3601s", "61m", "2h"}, false},
		{"heartbeat", []string{"1ms", "5s", "5000ms"}, []string{"0ms", "0h", "1800001ms", "31m", "1h"}, false},
		{"lock_delay", []string{"0s", "0h", "0ms", "1ms", "60s", "1m", "60000ms"}, []string{"60001ms", "61s", "2m", "1h"}, false},
		{"max_hold", []string{"1s", "1000ms", "10000h", "36000000s"}, []string{"0s", "999ms", "10001h", "36000000001ms"}, true},
		{"wait.max_wait", []string{"11s", "24h", "86400s", "1440m"}, []string{"0s", "999ms", "25h", "86401s", "1441m"}, true},
	}
	written := func(path, value string) string {
		if name, ok := strings.CutPrefix(path, "wait."); ok {
			return openFile + "wait: {" + name + ": " + value + "}\n"
		}
		return openFile + path + ": " + value + "\n"
	}
	for _, f := range fields {
		check := func(value string, want RuleID) {
			t.Helper()
			_, fs := Parse("f", []byte(written(f.path, value)), Options{})
			var got RuleID
			if errs := fs.Errors(); len(errs) == 1 {
				got = errs[0].Rule
			} else if len(errs) > 1 {
				t.Errorf("%s: %s: %d errors", f.path, value, len(errs))
			}
			if got != want {
				t.Errorf("%s: %s: got %q, want %q", f.path, value, got, want)
			}
			if want != "" && (!strings.Contains(fs.Text(), f.path) || !strings.Contains(fs.Text(), " to ")) {
				t.Errorf("%s: %s: field and limits are not told: %s", f.path, value, fs.Text())
			}
		}
		for _, v := range f.accept {
			check(v, "")
		}
		for _, v := range append(f.refused, "9223372036854775807ms", "9223372036854775808ms", "99999999999999999999h") {
			check(v, RuleOutOfRange)
		}
		for _, v := range []string{"10", "'10'", "0", "-5", "1e99", "'1e99'", "1.5", "10000000000", "0x10", "-1.5"} {
			check(v, RuleBareNumber)
		}
		for _, v := range []string{"1.5s", "-5s", "+5s", "1m30s", "010s", "5 s", "' 5s'", "5S", "5sec", "5us", "5ns", "5d", "s", "''",
			"1e3s", "５s", "true", "infinite", "Unlimited"} {
			check(v, RuleBadDuration)
		}
		want := RuleBadDuration
		if f.unlimited {
			want = ""
		}
		check("unlimited", want)
	}
}

func TestParse_fillsInDefaults(t *testing.T) {
	f, fs := Parse("f", []byte(fenced), Options{})
	if fs.Err() != nil {
		t.Fatalf("unexpected findings: %s", fs.Text())
	}
	want := ClassFile{Format: 1, Class: "ledger-close", Resource: "postgres:ledger", Owner: "ledger-owners",
		Purpose: PurposeCorrectness, Enforcement: EnforcementFenced, QuorumLoss: QuorumLossClosed, Guard: "column fence",
		Lease: 10 * time.Second, Heartbeat: 5 * time.Second, WaitMode: WaitQueue, MaxWait: 30 * time.Second, MaxWaiters: 1000}
	if f != want {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestParse_halvesAnOddLeaseDownwards(t *testing.T) {
	f, _ := Parse("f", []byte(openFile+"lease: 10001ms\n"), Options{})
	if f.Heartbeat != 5*time.Second {
		t.Errorf("heartbeat: got %s, want 5s", f.Heartbeat)
	}
}

func TestParse_readsJSONAsItReadsYAML(t *testing.T) {
	asJSON := `
	{	"format": 1, "class": "report-refresh", "resource": "bucket:reports",
		"owner": "group:report-owners", "purpose": "efficiency",
		"enforcement": "advisory", "quorum_loss": "open" }`
	a, fa := Parse("f", []byte(asJSON), Options{})
	b, fb := Parse("f", []byte(openFile), Options{})
	if a != b || fa.Err() != nil || fb.Err() != nil {
		t.Errorf("JSON gives %+v %s\nYAML gives %+v %s", a, fa.Text(), b, fb.Text())
	}
	_, fs := Parse("f", []byte("{\"é\": 1,\n \"class\": \"a\", \"class\": [\"b\", {\"c\": null}], \"lease\": 1e1}"), Options{})
	got := told(fs)
	for _, want := range []string{"1:2 unknown-field", "2:16 duplicate-field", "2:54 bare-number"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

func TestParse_holdsFileAgainstPlatform(t *testing.T) {
	cases := []struct {
		name, file string
		opts       Options
		want       string
	}{
		{"fail-open is off", openFile, Options{FailOpenDisabled: true}, "7:14 open-disabled"},
		{"fail-open is off, closed class", fenced, Options{FailOpenDisabled: true}, ""},
		{"same purpose", fenced, Options{FixedPurpose: PurposeCorrectness}, ""},
		{"purpose changed", fenced, Options{FixedPurpose: PurposeEfficiency}, "5:10 purpose-changed"},
		{"purpose changed and bad", edit(t, fenced, "correctness", "x"), Options{FixedPurpose: PurposeEfficiency}, "5:10 unknown-value"},
		{"owner known", fenced, Options{OwnerGroups: []Group{"a", "ledger-owners"}}, ""},
		{"owner unknown", fenced, Options{OwnerGroups: []Group{"a"}}, "4:8 unknown-owner"},
		{"no owner groups at all", fenced, Options{OwnerGroups: []Group{}}, "4:8 unknown-owner"},
		{"day before review", fenced + "review_by: 2027-06-30\n", Options{Today: "2027-06-29"}, ""},
		{"day of review", fenced + "review_by: 2027-06-30\n", Options{Today: "2027-06-30"}, ""},
		{"day after review", fenced + "review_by: 2027-06-30\n", Options{Today: "2027-07-01"}, "11:12 review-overdue"},
	}
	for _, c := range cases {
		_, fs := Parse("f", []byte(c.file), c.opts)
		if got := told(fs); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParse_givesNothingWhenAnythingIsRefused(t *testing.T) {
	f, fs := Parse("f", []byte(fenced+"leese: 1s\n"), Options{})
	if f != (ClassFile{}) || fs.Err() == nil {
		t.Errorf("got %+v and %v, want nothing and an error", f, fs.Err())
	}
}

func TestParse_suggestsTheNearestField(t *testing.T) {
	_, fs := Parse("f", []byte(fenced+"quorom_loss: open\n"), Options{})
	if want := "did you mean quorum_loss?"; len(fs) != 1 || fs[0].Remedy != want {
		t.Errorf("got %s, want %q", fs.Text(), want)
	}
}

func TestCanonical_isGolden(t *testing.T) {
	for _, name := range []string{"ledger-close.yaml", "report-refresh.json", "mail-send.yaml"} {
		f, fs := Parse(name, read(t, filepath.Join("testdata", "classes", name)), Options{})
		if fs.Err() != nil {
			t.Fatalf("%s: %v", name, fs.Err())
		}
		golden(t, filepath.Join("classes", string(f.Class)+".canonical"), append(f.Canonical(), '\n'))
		golden(t, filepath.Join("classes", string(f.Class)+".digest"), append([]byte(f.Digest()), '\n'))
	}
}

func TestDigest_dependsOnMeaningAlone(t *testing.T) {
	digest := func(file string) Digest {
		f, fs := Parse("f", []byte(file), Options{})
		if fs.Err() != nil {
			t.Fatal(fs.Err())
		}
		return f.Digest()
	}
	base := digest(fenced)
	if !base.Valid() {
		t.Errorf("digest %q has another form", base)
	}
	for _, same := range []string{"# c\n" + fenced, fenced + "lease: 10000ms\n", fenced + "heartbeat: 5s\nmax_hold: unlimited\n"} {
		if got := digest(same); got != base {
			t.Errorf("%q: got %s, want %s", same, got, base)
		}
	}
	seen := []Digest{base}
	for _, other := range []string{fenced + "lease: 11s\n", fenced + "heartbeat: 4s\n", fenced + "lock_delay: 1s\n",
		fenced + "max_hold: 1h\n", fenced + "review_by: 2027-01-01\n", fenced + "description: d\n",
		edit(t, fenced, "column", "Column"), edit(t, fenced, "queue", "refuse"), fenced + "  max_wait: 31s\n",
		fenced + "  max_waiters: 1\n", fenced + "  max_wait: unlimited\n", edit(t, fenced, "group:l", "group:m"),
		edit(t, fenced, "postgres:l", "postgres:m"), edit(t, fenced, "class: l", "class: m"), edit(t, fenced, "fenced", "advisory")} {
		got := digest(other)
		if slices.Contains(seen, got) {
			t.Errorf("%q: digest %s was seen before", other, got)
		}
		seen = append(seen, got)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"ledger-close.yaml", "report-refresh.json", "mail-send.yaml", "broken.yaml"} {
		f.Add(read(f, filepath.Join("testdata", "classes", name)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, fs := Parse("f", data, Options{FailOpenDisabled: true, Today: "2027-01-01"})
		if fs.Err() != nil {
			if file != (ClassFile{}) {
				t.Errorf("refused, and yet %+v", file)
			}
			return
		}
		if !file.Posture().valid() {
			t.Errorf("accepted, but the posture is not valid: %+v", file)
		}
	})
}
