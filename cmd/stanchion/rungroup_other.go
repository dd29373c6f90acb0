//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

// group is a process group. Elsewhere than on Linux there is none that stanchion run could keep its promise with: its gate says so.
type group struct{ id int }

func openGroup(leader int) group { return group{id: leader} }

func (*group) close() {}

func (g *group) signal(s syscall.Signal) error { return syscall.Kill(-g.id, s) }

func (g *group) end() { _ = g.signal(syscall.SIGTERM) }

func (g *group) kill() { _ = g.signal(syscall.SIGKILL) }

func (g *group) gone() bool { return errors.Is(g.signal(0), syscall.ESRCH) }

func (g *group) awaitGone(time.Duration) bool { return g.gone() }

func follow(_ int, stops chan<- struct{}) error {
	close(stops)
	return errors.ErrUnsupported
}
