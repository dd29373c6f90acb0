package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

func TestDecodeAcquire_readsEveryField(t *testing.T) {
	got, err := decodeAcquire([]byte(` {"class":"ledger-close","key":"\u00e9\ud83d\udd12\/a b","wait":"1m","poll":"0.5s",` +
		`"holder":"host-a:1","allow_open":true} `))
	want := leader.Acquire{Class: "ledger-close", Key: "é🔒/a b", Wait: time.Minute, Poll: 500 * time.Millisecond, Holder: "host-a:1"}
	if err != nil || got != want {
		t.Errorf("decodeAcquire = %+v, %v\nwant %+v", got, err, want)
	}
}

func TestDecodeAcquire_waitHasThreeMeanings(t *testing.T) {
	for body, want := range map[string]time.Duration{
		`{"class":"c","key":"k"}`:                    leader.WaitDefault,
		`{"class":"c","key":"k","wait":"0s"}`:        0,
		`{"class":"c","key":"k","wait":"1ms"}`:       time.Millisecond,
		`{"class":"c","key":"k","wait":"24h"}`:       24 * time.Hour,
		`{"class":"c","key":"k","wait":"unlimited"}`: -1,
	} {
		got, err := decodeAcquire([]byte(body))
		if err != nil || got.Wait != want || got.Poll != PollMax {
			t.Errorf("%s: wait %d, poll %v, %v; want %d and %v", body, got.Wait, got.Poll, err, want, PollMax)
		}
	}
}

// badDurations are wrong units, numbers, overflows and other things that are no duration in the API's notation.
var badDurations = []string{
	`86400000000000`, `24.5`, `"24"`, `-1`, `0`, `null`, `""`, `1e99`, `9223372036854775807`, `"24.5"`, `"-1s"`, `"1e3s"`,
	`"1 s"`, `"1d"`, `"1h30m"`, `" 1s"`, `true`, `{}`, `[]`, `["1s"]`, `"1125899906842624ms"`, `"9007199254740992ms"`,
	`"4611686018427387904ms"`, `"9223372036854775807ms"`, `"9223372036854775807s"`, `"99999999999999999999s"`, `"0.0001s"`,
}

func TestDecodeAcquire_refusesDurationsNamingFieldAndLimits(t *testing.T) {
	more := map[string][]string{
		"wait": {`"24.001s0"`, `"86400.001s"`, `"25h"`, `"1441m"`},
		"poll": {`"unlimited"`, `"10.001s"`, `"11s"`, `"1m"`},
	}
	limits := map[string]string{"wait": "from 0s to 24h", "poll": "from 0s to 10s"}
	for field, own := range more {
		for _, value := range append(own, badDurations...) {
			_, err := decodeAcquire([]byte(`{"class":"c","key":"k","` + field + `":` + value + `}`))
			bad, ok := errors.AsType[*badRequest](err)
			if !ok || bad.field != field || !strings.Contains(bad.why, limits[field]) {
				t.Errorf("%s: %s gives %v; want a refusal that names the field and %q", field, value, err, limits[field])
			}
		}
	}
}

func TestDecodeAcquire_refusesWhatIsNotTheOneForm(t *testing.T) {
	key513 := strings.Repeat("k", 513)
	for _, test := range []struct{ body, field string }{
		{``, ""}, {`null`, ""}, {`[]`, ""}, {`"x"`, ""}, {`{`, ""}, {`{"class"`, ""}, {`{"class":"c" "key":"k"}`, ""},
		{`{"class":"c","key":"k"}{}`, ""}, {`{"class":"c","key":"k"} x`, ""}, {"\ufeff" + `{"class":"c","key":"k"}`, ""},
		{`{"class":"c","key":"k",}`, ""}, {`{,"class":"c"}`, ""}, {`{class:"c"}`, ""},
		{`{"class":"c","key":"k","class":"c"}`, "class"}, {`{"class":"c","key":"k","cl\u0061ss":"c"}`, "class"},
		{`{"class":"c","key":"k","Key":"k"}`, "Key"}, {`{"class":"c","key":"k","ttl":"1s"}`, "ttl"},
		{`{"class":"c"}`, "key"}, {`{"key":"k"}`, "class"}, {`{}`, "class"},
		{`{"class":"C","key":"k"}`, "class"}, {`{"class":"","key":"k"}`, "class"}, {`{"class":null,"key":"k"}`, "class"},
		{`{"class":"` + strings.Repeat("c", 64) + `","key":"k"}`, "class"},
		{`{"class":"c","key":""}`, "key"}, {`{"class":"c","key":null}`, "key"}, {`{"class":"c","key":7}`, "key"},
		{`{"class":"c","key":"` + key513 + `"}`, "key"}, {`{"class":"c","key":"a\u0000"}`, "key"},
		{`{"class":"c","key":"a\n"}`, "key"}, {`{"class":"c","key":"\u0085"}`, "key"}, {"{\"class\":\"c\",\"key\":\"\xff\"}", "key"},
		{"{\"class\":\"c\",\"key\":\"a\tb\"}", "key"}, {`{"class":"c","key":"\ud800"}`, "key"},
		{`{"class":"c","key":"\udc00\ud800"}`, "key"}, {`{"class":"c","key":"\x41"}`, "key"}, {`{"class":"c","key":"a`, "key"},
		{`{"class":"c","key":"k","holder":"` + strings.Repeat("h", 129) + `"}`, "holder"},
		{`{"class":"c","key":"k","holder":"\u0007"}`, "holder"}, {`{"class":"c","key":"k","holder":null}`, "holder"},
		{`{"class":"c","key":"k","allow_open":"true"}`, "allow_open"}, {`{"class":"c","key":"k","allow_open":1}`, "allow_open"},
	} {
		_, err := decodeAcquire([]byte(test.body))
		if bad, ok := errors.AsType[*badRequest](err); !ok || bad.field != test.field {
			t.Errorf("%.80s gives %v; want a refusal of field %q", test.body, err, test.field)
		}
	}
}

func TestDecodeHeartbeat_takesDistinctSequences(t *testing.T) {
	for body, want := range map[string]int{
		`{"leases":[]}`: 0, `{"leases":[1]}`: 1, `{"leases": [ 3 , 1 , 9007199254740991 ] }`: 3,
		`{"leases":[` + list(leader.HeartbeatMax) + `]}`: leader.HeartbeatMax,
	} {
		got, err := decodeHeartbeat([]byte(body))
		if err != nil || len(got) != want {
			t.Errorf("%.60s gives %d leases, %v; want %d", body, len(got), err, want)
		}
	}
	for _, body := range []string{
		`{}`, `{"leases":null}`, `{"leases":1}`, `{"leases":[0]}`, `{"leases":[-1]}`, `{"leases":[1.0]}`, `{"leases":[1e3]}`,
		`{"leases":["1"]}`, `{"leases":[1,1]}`, `{"leases":[2,1,2]}`, `{"leases":[01]}`, `{"leases":[9007199254740992]}`,
		`{"leases":[99999999999999999999]}`, `{"leases":[1,]}`, `{"leases":[,1]}`, `{"leases":[1 2]}`, `{"leases":[1`,
		`{"leases":[` + list(leader.HeartbeatMax+1) + `]}`, `{"leases":[null]}`, `{"leases":[[1]]}`,
	} {
		if _, err := decodeHeartbeat([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), "leases: ") {
			t.Errorf("%.60s gives %v; want a refusal of field leases", body, err)
		}
	}
}

// list is the numbers from n down to 1.
func list(n int) string {
	var b bytes.Buffer
	for i := n; i > 0; i-- {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		raw, _ := json.Marshal(i)
		b.Write(raw)
	}
	return b.String()
}

// FuzzDecodeAcquire holds the strict decoder against the standard library's: what it takes, that one takes as well, and
// reads the same.
func FuzzDecodeAcquire(f *testing.F) {
	f.Add([]byte(`{"class":"c","key":"\ud83d\udd12","wait":"1m","poll":"0.5s","holder":"h","allow_open":false}`))
	f.Add([]byte(`{"class":"c","key":"k","wait":"unlimited"}`))
	f.Add([]byte("{\"class\":\"c\",\"key\":\"\xff\"}"))
	f.Add([]byte(`{"class":"c","class":"d","key":"k"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeAcquire(body)
		if err != nil {
			if _, ok := errors.AsType[*badRequest](err); !ok {
				t.Fatalf("%q gives %v, which names no part of the request", body, err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		var want wire.AcquireRequest
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is taken, and by encoding/json refused: %v", body, err)
		}
		if string(got.Class) != want.Class || string(got.Key) != want.Key || got.Holder != want.Holder {
			t.Fatalf("%q is read as %+v; encoding/json reads %+v", body, got, want)
		}
		if want.Wait != nil && got.Wait != want.Wait.Std() || want.Poll != nil && got.Poll != want.Poll.Std() {
			t.Fatalf("%q has the durations %v and %v; encoding/json reads %v and %v", body, got.Wait, got.Poll, want.Wait, want.Poll)
		}
		if !lockcore.ValidName(want.Class) || !lockcore.ValidKey(want.Key) || got.Poll < 0 || got.Poll > PollMax {
			t.Fatalf("%q is taken, out of range: %+v", body, got)
		}
	})
}

func FuzzDecodeHeartbeat(f *testing.F) {
	f.Add([]byte(`{"leases":[3,1,2]}`))
	f.Add([]byte(`{"leases":[]}`))
	f.Add([]byte(`{"leases":[1,1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeHeartbeat(body)
		if err != nil {
			return
		}
		var want wire.HeartbeatRequest
		if err := json.Unmarshal(body, &want); err != nil || len(got) != len(want.Leases) {
			t.Fatalf("%q is read as %v; encoding/json reads %v, %v", body, got, want.Leases, err)
		}
		seen := map[uint64]bool{}
		for i, n := range got {
			if n != want.Leases[i] || n < 1 || n > lockcore.SequenceMax || seen[n] {
				t.Fatalf("%q is read as %v", body, got)
			}
			seen[n] = true
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add(cursor(LockPosition{"c", "k"}))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := parseCursor(text); ok && cursor(at) != text {
			t.Fatalf("%q is taken for %+v, which is written %q", text, at, cursor(at))
		}
	})
}
