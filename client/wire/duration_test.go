package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestParseDuration_readsTheOneNotation(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "0ms": 0, "1ms": time.Millisecond, "500ms": 500 * time.Millisecond, "10s": 10 * time.Second,
		"9.873s": 9873 * time.Millisecond, "0.5s": 500 * time.Millisecond, "1.05s": 1050 * time.Millisecond,
		"1m": time.Minute, "24h": 24 * time.Hour, "unlimited": time.Duration(Unlimited),
		"9223372036854ms": 9223372036854 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got.Std(), err, want)
		}
	}
}

var notDurations = []string{
	"", " ", "s", "ms", "10", "24", "24.5", "-1", "-1s", "+1s", "1e99", "1e3s", "01s", "00s", "1.s", ".5s", "1.5ms", "1.5m",
	"1.0000s", "1,5s", "1 s", " 1s", "1s ", "1h30m", "1d", "1S", "1us", "1ns", "86400000000000", "9223372036854775807",
	"9223372036854775807ms", "9223372036854775808s", "9223372036855s", "9223372036854.999s", "2562048h", "153722867281m",
	"1125899906842624s", "9007199254740992s", "4611686018427387904ms", "٣s", "1s\x00", "Unlimited", "null", "0x10s",
}

func TestParseDuration_refusesEverythingElse(t *testing.T) {
	for _, text := range notDurations {
		if got, err := ParseDuration(text); !errors.Is(err, ErrDuration) {
			t.Errorf("ParseDuration(%q) = %v, %v; want ErrDuration", text, got.Std(), err)
		}
	}
}

func TestDuration_jsonTakesOnlyStrings(t *testing.T) {
	for _, text := range []string{`24.5`, `-1`, `0`, `null`, `1e99`, `9223372036854775807`, `true`, `{}`, `["1s"]`, `"24"`} {
		var d struct{ D Duration }
		if err := json.Unmarshal([]byte(`{"D":`+text+`}`), &d); err == nil {
			t.Errorf("Unmarshal(%s) = %v; want an error", text, d.D)
		}
	}
}

func TestDuration_writesDecimalSecondsRoundedDown(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "0s", 999_999: "0s", time.Millisecond: "0.001s", 50 * time.Millisecond: "0.05s",
		9873*time.Millisecond + 999_999: "9.873s", 10 * time.Second: "10s", 90 * time.Minute: "5400s",
		1500 * time.Millisecond: "1.5s", -1: "unlimited",
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("Duration(%d) = %s; want %s", d, got, want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range append([]string{"9.873s", "500ms", "1m", "24h", "0s"}, notDurations...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d != Unlimited && (d < 0 || d.Std()%time.Millisecond != 0) {
			t.Fatalf("ParseDuration(%q) = %d; want whole milliseconds from 0", text, d)
		}
		if std, err := time.ParseDuration(text); d != Unlimited && (err != nil || std != d.Std()) {
			t.Fatalf("ParseDuration(%q) = %v; the standard library reads %v, %v", text, d.Std(), std, err)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("ParseDuration(%q) is written %s and read again as %v, %v", text, d, again, err)
		}
	})
}
