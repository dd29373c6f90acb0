package wire

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestTimeMS_hasOneSpelling(t *testing.T) {
	for ms, want := range map[TimeMS]string{0: "1970-01-01T00:00:00.000Z", 1: "1970-01-01T00:00:00.001Z", -1: "1969-12-31T23:59:59.999Z",
		1_782_860_400_120: "2026-06-30T23:00:00.120Z", 1_792_890_000_000: "2026-10-25T01:00:00.000Z"} {
		b, err := json.Marshal(ms)
		if err != nil || string(b) != `"`+want+`"` {
			t.Errorf("%d is written as %s, %v; want %s", int64(ms), b, err, want)
		}
	}
	for _, text := range []string{"", "2026-06-30", "2026-06-30T23:00:00Z", "2026-06-30T23:00:00.12Z", "2026-06-30T23:00:00.1200Z",
		"2026-06-30T23:00:00.120+00:00", "2026-06-30t23:00:00.120Z", "2026-06-31T23:00:00.120Z", "2026-06-30T23:00:00,120Z"} {
		var ms TimeMS
		if err := ms.UnmarshalText([]byte(text)); !errors.Is(err, ErrInvalidTime) {
			t.Errorf("%q is read as %d, %v; want ErrInvalidTime", text, int64(ms), err)
		}
	}
}

func TestTimeMS_isReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := TimeMS(rapid.Int64Range(-62_000_000_000_000, 253_402_300_799_999).Draw(t, "ms"))
		var got TimeMS
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Fatalf("%s is read as %d, %v; want %d", want, int64(got), err, int64(want))
		}
	})
}

func TestAuditPosition_hasOneSpelling(t *testing.T) {
	for text, want := range map[string]AuditPosition{"control/1/0": {0, 1, 0}, "partition-1/123/4": {1, 123, 4},
		"partition-4294967295/18446744073709551615/4294967295": {1<<32 - 1, 1<<64 - 1, 1<<32 - 1}} {
		if got, ok := ParseAuditPosition(text); !ok || got != want || got.String() != text {
			t.Errorf("%s is read as %+v, %v; want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "control", "control/1", "control/1/0/0", "control/01/0", "control/+1/0", "Control/1/0", "partition-0/1/0",
		"partition-01/1/0", "partition-/1/0", "partition-4294967296/1/0", "partition-1/1/-1", "partition-1//0", " control/1/0"} {
		if got, ok := ParseAuditPosition(text); ok {
			t.Errorf("%q is read as %+v; want nothing", text, got)
		}
	}
}
