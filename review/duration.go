package review

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// durationLimits bounds one duration field. Milliseconds throughout.
type durationLimits struct {
	field     string
	minMS     int64
	maxMS     int64
	unlimited bool // "unlimited" may be written, and is kept as 0
}

var (
	leaseLimits     = durationLimits{field: "lease", minMS: 1_000, maxMS: 3_600_000}
	heartbeatLimits = durationLimits{field: "heartbeat", minMS: 1, maxMS: 1_800_000}
	lockDelayLimits = durationLimits{field: "lock_delay", minMS: 0, maxMS: 60_000}
	maxHoldLimits   = durationLimits{field: "max_hold", minMS: 1_000, maxMS: 36_000_000_000, unlimited: true}
	maxWaitLimits   = durationLimits{field: "wait.max_wait", minMS: 1_000, maxMS: 86_400_000, unlimited: true}
)

func (l durationLimits) accepts(ms int64) bool {
	return l.minMS <= ms && ms <= l.maxMS || l.unlimited && ms == 0
}

// String says the limits as a class file would write them.
func (l durationLimits) String() string {
	s := formatMS(l.minMS) + " to " + formatMS(l.maxMS)
	if l.unlimited {
		s += ", or " + unlimitedWord
	}
	return s
}

type durationUnit struct {
	name string
	ms   int64
}

var durationUnits = []durationUnit{{"ms", 1}, {"s", 1_000}, {"m", 60_000}, {"h", 3_600_000}}

var (
	// ErrBareNumber is returned by ParseDuration for a number without a unit.
	ErrBareNumber = errors.New("a bare number is not a duration")
	// ErrInvalidDuration is returned by ParseDuration for text in any form but a decimal integer and one unit.
	ErrInvalidDuration = errors.New("not a duration")
	// ErrDurationOverflow is returned by ParseDuration for a duration that is too large to count.
	ErrDurationOverflow = errors.New("duration too large")
)

// ParseDuration reads a decimal integer followed by ms, s, m or h, and nothing else: no sign, fraction, exponent, leading
// zero, space or second unit. It returns ErrBareNumber, ErrInvalidDuration or ErrDurationOverflow.
func ParseDuration(s string) (time.Duration, error) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	number, unit := s[:digits], s[digits:]
	switch {
	case unit == "" && number != "" || looksNumeric(s):
		return 0, ErrBareNumber
	case number == "" || len(number) > 1 && number[0] == '0':
		return 0, ErrInvalidDuration
	}
	return scale(number, unit)
}

func scale(number, unit string) (time.Duration, error) {
	for _, u := range durationUnits {
		if u.name != unit {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		factor := u.ms * int64(time.Millisecond)
		if err != nil || n > math.MaxInt64/factor {
			return 0, fmt.Errorf("%w: %s", ErrDurationOverflow, shorten(number+unit))
		}
		return time.Duration(n * factor), nil
	}
	return 0, ErrInvalidDuration
}

// looksNumeric reports whether s is a number of some other spelling, such as -5, 1.5 or 1e99.
func looksNumeric(s string) bool {
	if s == "" {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && s[0] < 'A'
}
