package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	session = "4f2c9a1be07d4c55a3b6d2f0918e7c43"
	lease   = session + ".1"
)

func TestLease_hasTheFieldsOfItsState(t *testing.T) {
	full := Lease{LeaseID: lease, Class: "c", Key: "k", Token: 7, Epoch: 2, Claim: Claim{"id", "text"}, PostureVersion: 3,
		UseWithin: Duration(9873 * time.Millisecond), ContactWithin: Duration(5 * time.Second), Protected: true, Position: 4,
		Holder: "h", Index: 9}
	for _, test := range []struct {
		state State
		edit  func(*Lease)
		want  string
	}{
		{StateGranted, nil, `"class":"c","key":"k","token":7,"epoch":2,"claim":{"id":"id","text":"text"},"posture_version":3,` +
			`"protected":true,"use_within":"9.873s","contact_within":"5s","holder":"h","index":9}`},
		{StateGranted, func(l *Lease) { l.Token, l.Protected, l.UseWithin = 0, false, 0 },
			`"class":"c","key":"k","token":0,"epoch":2,"claim":{"id":"id","text":"text"},"posture_version":3,` +
				`"protected":false,"use_within":"0s","contact_within":"5s","holder":"h","index":9}`},
		{StateQueued, func(l *Lease) { l.Token = 0 },
			`"class":"c","key":"k","contact_within":"5s","position":4,"holder":"h","index":9}`},
		{StateEnding, func(l *Lease) { l.Reason = "forced" },
			`"class":"c","key":"k","token":7,"epoch":2,"claim":{"id":"id","text":"text"},"posture_version":3,` +
				`"protected":true,"reason":"forced","holder":"h","index":9}`},
		{StateEnded, func(l *Lease) { l.Reason = "released" },
			`"class":"c","key":"k","token":7,"reason":"released","holder":"h","index":9}`},
		{StateEnded, func(l *Lease) { *l = Lease{LeaseID: lease, Reason: "burned", Index: 9} }, `"reason":"burned","index":9}`},
	} {
		l := full
		if test.edit != nil {
			test.edit(&l)
		}
		l.State = test.state
		want := `{"lease_id":"` + lease + `","state":"` + string(test.state) + `",` + test.want
		if got := string(l.AppendJSON(nil)); got != want {
			t.Errorf("%s lease\n got %s\nwant %s", test.state, got, want)
		}
	}
}

func TestLease_isReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Lease{LeaseID: lease, State: StateGranted, Class: rapid.String().Draw(t, "class"),
			Key: rapid.String().Draw(t, "key"), Holder: rapid.String().Draw(t, "holder"),
			Token:     rapid.Uint64Max(1<<53-1).Draw(t, "token"),
			UseWithin: Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ms")) * Duration(time.Millisecond)}
		var got Lease
		if err := json.Unmarshal(want.AppendJSON(nil), &got); err != nil || got != want {
			t.Fatalf("read %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestLease_tokensKeepAllDigits(t *testing.T) {
	got := string(Lease{State: StateGranted, Token: 1<<53 - 1}.AppendJSON(nil))
	if !strings.Contains(got, `"token":9007199254740991,`) {
		t.Errorf("token 2^53-1 is written in %s", got)
	}
}

func TestHeartbeatAnswer_isReadAsItWasWritten(t *testing.T) {
	want := HeartbeatAnswer{Session: session, Index: 12,
		Held: []Held{{lease, 7, Duration(9 * time.Second), Duration(4 * time.Second)}, {session + ".2", 8, 0, 0}},
		Lost: []Lost{{session + ".3", CodeRevoked, "forced", true, 9}, {session + ".4", CodeNotFound, "unknown", false, 0}}}
	var got HeartbeatAnswer
	if err := json.Unmarshal(want.AppendJSON(nil), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v\nwant %+v", got, err, want)
	}
	empty := `{"session":"` + session + `","held":[],"lost":[],"index":0}`
	if got := string(HeartbeatAnswer{Session: session}.AppendJSON(nil)); got != empty {
		t.Errorf("empty answer is %s; want %s", got, empty)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\n", "é", "\u2028", "🔒", "\xff\xfe", "a\xc3", "مفتاح"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got, want string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatalf("%q is written as no JSON: %v", s, err)
		}
		standard, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(standard, &want); err != nil || got != want {
			t.Fatalf("%q is read back as %q; encoding/json gives %q, %v", s, got, want, err)
		}
	})
}
