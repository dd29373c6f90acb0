package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// hand is the terminal that this process was given as standard input, and hands to the command.
type hand struct {
	fd    int
	own   int         // this process's group
	modes *term.State // as they were before the command; nil: unknown
}

// newHand is the terminal at f, if it controls this process's session; else nil, with which all methods do nothing.
func newHand(f *os.File) *hand {
	h := &hand{fd: int(f.Fd()), own: syscall.Getpgrp()}
	if _, err := unix.IoctlGetInt(h.fd, unix.TIOCGPGRP); err != nil {
		return nil
	}
	if h.foreground() == h.own {
		h.modes, _ = term.GetState(h.fd) // nil on an error
	}
	return h
}

// foreground is the group that reads from the terminal and gets its signals.
func (h *hand) foreground() int {
	id, err := unix.IoctlGetInt(h.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return id
}

// give makes the command's group the terminal's, if this process's is. From then on this process may write to the terminal whatever
// its modes say about groups that are not in front. Not before the last fork: what is ignored would be ignored in the child.
func (h *hand) give(g group) {
	if h == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	if h.foreground() == h.own {
		_ = unix.IoctlSetPointerInt(h.fd, unix.TIOCSPGRP, g.id) // else it reads nothing, and is stopped when it tries
	}
}

// take makes this process's group the terminal's again, if the command's is.
func (h *hand) take(g group) {
	if h != nil && h.foreground() == g.id {
		_ = unix.IoctlSetPointerInt(h.fd, unix.TIOCSPGRP, h.own)
	}
}

// restore sets the modes as they were before a command that was killed and could not do so.
func (h *hand) restore() {
	if h != nil && h.modes != nil && h.foreground() == h.own {
		_ = term.Restore(h.fd, h.modes)
	}
}
