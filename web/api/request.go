package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

const (
	// PollMax is the longest that one request may hang.
	PollMax = 10 * time.Second
	// waitMax is the longest wait that any class can allow, unlimited apart.
	waitMax = 24 * time.Hour

	bodyBytesMax          = 16 << 10
	heartbeatBodyBytesMax = 128 << 10
)

var (
	acquireFields   = []string{"class", "key", "wait", "poll", "holder", "allow_open"}
	heartbeatFields = []string{"leases"}
)

const (
	classRule  = "must be a class name: 1 to 63 lower-case letters, digits and hyphens"
	keyRule    = "must be 1 to 512 bytes of UTF-8 without control characters"
	holderRule = "must be at most 128 bytes of UTF-8 without control characters"
	waitRule   = `must be a duration such as "500ms", "10s" or "1m", from 0s to 24h, or "unlimited"`
	pollRule   = `must be a duration such as "500ms" or "10s", from 0s to 10s`
	openRule   = "must be true or false"
)

// decodeAcquire reads the body of an acquire into what the leader is asked, all but who asks and for which id.
func decodeAcquire(body []byte) (leader.Acquire, error) {
	req := leader.Acquire{Wait: leader.WaitDefault, Poll: PollMax}
	s := scanner{data: body}
	err := s.object(acquireFields, func(field int) error { return decodeAcquireField(&s, &req, field) })
	switch {
	case err != nil:
		return leader.Acquire{}, err
	case req.Class == "":
		return leader.Acquire{}, &badRequest{"class", "is missing; it " + classRule}
	case req.Key == "":
		return leader.Acquire{}, &badRequest{"key", "is missing; it " + keyRule}
	}
	return req, nil
}

func decodeAcquireField(s *scanner, req *leader.Acquire, field int) error {
	switch name := acquireFields[field]; name {
	case "class":
		text, err := s.text()
		req.Class = lockcore.ClassName(text)
		return unless(err == nil && lockcore.ValidName(text), name, classRule)
	case "key":
		text, err := s.text()
		req.Key = lockcore.Key(text)
		return unless(err == nil && lockcore.ValidKey(text), name, keyRule)
	case "holder":
		text, err := s.text()
		req.Holder = text
		return unless(err == nil && validHolder(text), name, holderRule)
	case "wait":
		d, err := s.duration()
		req.Wait = waitOf(d)
		return unless(err == nil && d.Std() <= waitMax, name, waitRule)
	case "poll":
		d, err := s.duration()
		req.Poll = d.Std()
		return unless(err == nil && 0 <= d && d.Std() <= PollMax, name, pollRule)
	default: // allow_open: a leader's grant is never an open one, so that nothing follows from it here
		_, ok := s.boolean()
		return unless(ok, name, openRule)
	}
}

// waitOf is how the leader is told of a wait.
func waitOf(d wire.Duration) time.Duration {
	if d == wire.Unlimited {
		return -1
	}
	return d.Std()
}

func validHolder(text string) bool {
	return text == "" || len(text) <= lockcore.HolderBytesMax && lockcore.ValidKey(text)
}

func unless(ok bool, field, why string) error {
	if ok {
		return nil
	}
	return &badRequest{field, why}
}

var leasesRule = fmt.Sprintf("must be a list of at most %d lease numbers, each from 1 to 2^53-1 and there once", leader.HeartbeatMax)

// decodeHeartbeat reads the sequences that a heartbeat names.
func decodeHeartbeat(body []byte) ([]uint64, error) {
	var leases []uint64
	given := false
	s := scanner{data: body}
	err := s.object(heartbeatFields, func(int) error {
		given = true
		var ok bool
		leases, ok = s.sequences()
		return unless(ok && distinct(leases), "leases", leasesRule)
	})
	if err == nil && !given {
		err = &badRequest{"leases", "is missing; it " + leasesRule}
	}
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// sequences reads a list of lease numbers.
func (s *scanner) sequences() ([]uint64, bool) {
	if !s.take('[') {
		return nil, false
	}
	if s.take(']') {
		return nil, true
	}
	list := make([]uint64, 0, 16)
	for len(list) < leader.HeartbeatMax {
		n, ok := s.whole()
		if !ok || n > lockcore.SequenceMax {
			return nil, false
		}
		list = append(list, n)
		if s.take(']') {
			return list, true
		}
		if !s.take(',') {
			return nil, false
		}
	}
	return nil, false
}

func distinct(list []uint64) bool {
	if ascending(list) {
		return true
	}
	sorted := slices.Sorted(slices.Values(list))
	return ascending(sorted)
}

// ascending reports whether each number is greater than the one before.
func ascending(list []uint64) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}
