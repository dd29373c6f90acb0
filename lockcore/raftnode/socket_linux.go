package raftnode

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged makes the kernel give a connection up when sent data stays unacknowledged for so long; keep-alive
// alone does not look while data is under way.
func limitUnacknowledged(conn syscall.RawConn, limit time.Duration) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("set TCP user timeout: %w", err)
	}
	return nil
}
