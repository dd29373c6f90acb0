package review

import (
	"errors"
	"testing"
	"time"
)

func TestParseDuration_readsOneIntegerAndOneUnit(t *testing.T) {
	cases := []struct {
		text string
		want time.Duration
		err  error
	}{
		{"0s", 0, nil}, {"500ms", 500 * time.Millisecond, nil}, {"10s", 10 * time.Second, nil},
		{"1m", time.Minute, nil}, {"24h", 24 * time.Hour, nil},
		{"9223372036854ms", 9223372036854 * time.Millisecond, nil},
		{"9223372036855ms", 0, ErrDurationOverflow}, {"2562047h", 2562047 * time.Hour, nil},
		{"2562048h", 0, ErrDurationOverflow}, {"99999999999999999999s", 0, ErrDurationOverflow},
		{"", 0, ErrInvalidDuration}, {"s", 0, ErrInvalidDuration}, {"00s", 0, ErrInvalidDuration},
		{"01s", 0, ErrInvalidDuration}, {"1s1s", 0, ErrInvalidDuration}, {"1µs", 0, ErrInvalidDuration},
		{"inf", 0, ErrInvalidDuration}, {"NaN", 0, ErrInvalidDuration}, {" 1s", 0, ErrInvalidDuration},
		{"10", 0, ErrBareNumber}, {"-10", 0, ErrBareNumber}, {"1e99", 0, ErrBareNumber}, {"1e999", 0, ErrBareNumber},
		{"1.5", 0, ErrBareNumber}, {".5", 0, ErrBareNumber}, {"10000000000", 0, ErrBareNumber},
	}
	for _, c := range cases {
		got, err := ParseDuration(c.text)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: got %d, %v; want %d, %v", c.text, got, err, c.want, c.err)
		}
	}
}

func TestFormatDuration_isReadBackUnchanged(t *testing.T) {
	for _, ms := range []int64{1, 999, 1_000, 1_001, 60_000, 61_000, 3_600_000, 86_400_000, 0} {
		d := time.Duration(ms) * time.Millisecond
		if got, err := ParseDuration(FormatDuration(d, false)); got != d || err != nil {
			t.Errorf("%s: got %s, %v", d, got, err)
		}
	}
	if got := FormatDuration(0, true); got != "unlimited" {
		t.Errorf("no bound: got %q, want unlimited", got)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"10s", "500ms", "1e99", "9223372036855ms", "-1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil && d != 0 || d < 0 {
			t.Errorf("%q: got %d, %v", s, d, err)
		}
		if err == nil {
			if again, err := ParseDuration(FormatDuration(d, false)); again != d || err != nil {
				t.Errorf("%q: read back as %d, %v", s, again, err)
			}
		}
	})
}
