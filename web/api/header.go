package api

import (
	"math/rand/v2"
	"strconv"
)

// Headers of the API, in canonical form.
const (
	// HeaderLeader names, in answers, the node that leads the tenant's partition: its id, a space, its public address.
	HeaderLeader = "Stanchion-Leader"
	// HeaderRequestID names a request, in logs and in problems. A client may choose it.
	HeaderRequestID = "X-Request-Id"
	// headerForwardedBy names, on the peer listener, the node that passed a request on.
	headerForwardedBy = "Stanchion-Forwarded-By"
)

const requestIDBytesMax = 64

// RequestID is the id that a client chose, if it is 1–64 letters, digits, dots, hyphens and underscores; else a new one.
func RequestID(chosen string) string {
	if chosen != "" && len(chosen) <= requestIDBytesMax && plain(chosen) {
		return chosen
	}
	return strconv.FormatUint(rand.Uint64()|1<<63, 16)
}

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// retryAfter draws 1 to secsMax seconds, so that those who were refused together do not come back together.
func retryAfter(secsMax int) string { return strconv.Itoa(1 + rand.IntN(secsMax)) }
