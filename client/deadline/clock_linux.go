package deadline

import (
	"time"

	"golang.org/x/sys/unix"
)

type system struct{}

func (system) Read() Reading {
	return Reading{Boot: read(unix.CLOCK_BOOTTIME), Monotonic: read(unix.CLOCK_MONOTONIC),
		Raw: read(unix.CLOCK_MONOTONIC_RAW), Wall: read(unix.CLOCK_REALTIME)}
}

func read(clock int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
