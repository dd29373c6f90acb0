//go:build !linux

package raftnode

import (
	"syscall"
	"time"
)

// limitUnacknowledged has no portable counterpart outside Linux; the deadlines of each request remain.
func limitUnacknowledged(syscall.RawConn, time.Duration) error { return nil }
