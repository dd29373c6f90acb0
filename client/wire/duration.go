package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time in the API's one notation: a string with a unit. Requests say "500ms", "10s", "1m", "1h" or
// "0.25s"; answers always give decimal seconds, such as "9.873s". It is whole milliseconds; finer parts are dropped on the
// way out, so that no promise is rounded up.
type Duration time.Duration

// Unlimited is the duration written "unlimited". Only fields that say so accept it.
const Unlimited Duration = -1

// ErrDuration is returned for text that is not a duration in the API's notation. The caller names the field and its limits.
var ErrDuration = errors.New(`not a duration such as "500ms", "10s" or "1m"`)

const unlimited = "unlimited"

var unitMillis = map[string]int64{"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}

// ParseDuration reads one number with one unit (ms, s, m or h). Seconds may have one to three decimals. Signs, spaces,
// leading zeros, bare numbers, combined units and anything past 292 years are ErrDuration.
func ParseDuration(s string) (Duration, error) {
	if s == unlimited {
		return Unlimited, nil
	}
	number := s[:digitsEnd(s, 0)]
	rest := s[len(number):]
	whole, err := strconv.ParseInt(number, 10, 64)
	if err != nil || (number[0] == '0' && len(number) > 1) {
		return 0, ErrDuration
	}
	fraction := int64(0)
	if strings.HasPrefix(rest, ".") {
		end := digitsEnd(rest, 1)
		if fraction, err = parseMillis(rest[1:end]); err != nil || rest[end:] != "s" {
			return 0, ErrDuration
		}
		rest = rest[end:]
	}
	unit, known := unitMillis[rest]
	if !known || whole > (math.MaxInt64/int64(time.Millisecond)-fraction)/unit {
		return 0, ErrDuration
	}
	return Duration((whole*unit + fraction) * int64(time.Millisecond)), nil
}

// digitsEnd is the end of the run of decimal digits that starts at from.
func digitsEnd(s string, from int) int {
	for from < len(s) && '0' <= s[from] && s[from] <= '9' {
		from++
	}
	return from
}

// parseMillis reads the one to three decimals of a number of seconds.
func parseMillis(digits string) (int64, error) {
	if len(digits) < 1 || len(digits) > 3 {
		return 0, ErrDuration
	}
	return strconv.ParseInt((digits + "00")[:3], 10, 64)
}

// Std is the duration as the standard library has it; of Unlimited it is negative.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the duration in decimal seconds, or "unlimited".
func (d Duration) String() string { return string(d.append(nil)) }

func (d Duration) append(b []byte) []byte {
	if d < 0 {
		return append(b, unlimited...)
	}
	millis := time.Duration(d).Milliseconds()
	b = strconv.AppendInt(b, millis/1000, 10)
	if fraction := millis % 1000; fraction != 0 {
		digits := [...]byte{'.', byte('0' + fraction/100), byte('0' + fraction/10%10), byte('0' + fraction%10)}
		n := len(digits)
		for digits[n-1] == '0' {
			n--
		}
		b = append(b, digits[:n]...)
	}
	return append(b, 's')
}

// MarshalJSON writes the duration as a string in decimal seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 16), '"')
	return append(d.append(b), '"'), nil
}

// UnmarshalJSON reads what ParseDuration reads, as a JSON string. Numbers and null are ErrDuration.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if len(data) == 0 || data[0] != '"' {
		return fmt.Errorf("%w: got %s", ErrDuration, data)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrDuration, err)
	}
	parsed, err := ParseDuration(s)
	*d = parsed
	return err
}
