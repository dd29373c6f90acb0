package bench

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// ErrRange is returned, with the name and the range, for an option that is outside of its range.
var ErrRange = errors.New("out of range")

// Limits of options.
const (
	ClientsMax          = 4096      // connections at a time
	LeasesMax           = 1_000_000 // held at a time
	LeasesPerSessionMax = 10_000    // as many as a heartbeat may name
	RateMax             = 10_000    // pairs per second of the tenant that keeps a steady rate
	StepsMax            = 16        // of a list of clients or leases
	SecondsMax          = 600
	EveryMin            = 100 * time.Millisecond
	EveryMax            = time.Hour
	metricsMax          = 64
)

// WarmUp is how long a load runs before it is measured.
const WarmUp = time.Second

// Config says what all measurements need.
type Config struct {
	Endpoints []string    // addresses of nodes, as http://host:port; at least one
	APIKey    string      // of a tenant's service, with the scope locks: for the class
	TLS       *tls.Config // for https; nil: as the system has it
	Class     string      // whose keys are taken
	Seconds   int         // measured per row, after WarmUp; 1 .. SecondsMax
	Metrics   []string    // addresses of the nodes' metrics; empty: the servers' CPU and memory are not measured
	Progress  Progress    // nil: nobody watches

	brief time.Duration // in tests: in place of WarmUp and Seconds
}

// Progress is told how far a measurement has come. Its methods are called from one goroutine at a time.
type Progress interface {
	Begin(what string, steps int) // a stage of so many steps; ends the stage before
	Step(n int)                   // so many more are done
}

func (c Config) validate() error {
	errs := []error{inRange("seconds", c.Seconds, 1, SecondsMax)}
	if len(c.Endpoints) == 0 {
		errs = append(errs, fmt.Errorf("%w: no endpoint", ErrRange))
	}
	if len(c.Metrics) > metricsMax {
		errs = append(errs, fmt.Errorf("%w: %d addresses of metrics; at most %d", ErrRange, len(c.Metrics), metricsMax))
	}
	return errors.Join(errs...)
}

func (c Config) seconds() time.Duration { return cmp.Or(c.brief, time.Duration(c.Seconds)*time.Second) }

func (c Config) warmUp() time.Duration { return cmp.Or(c.brief, WarmUp) }

func inRange(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%w: %s is %d to %d, not %d", ErrRange, name, least, most, value)
	}
	return nil
}

// eachInRange checks a list that has one row of the result for each of its numbers.
func eachInRange(name string, values []int, most int) error {
	if len(values) == 0 || len(values) > StepsMax {
		return fmt.Errorf("%w: %s has 1 to %d numbers, not %d", ErrRange, name, StepsMax, len(values))
	}
	var errs []error
	for _, v := range values {
		errs = append(errs, inRange(name, v, 1, most))
	}
	return errors.Join(errs...)
}
