package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/stanchion-locks/stanchion/client"
	"github.com/stanchion-locks/stanchion/client/deadline"
)

const (
	leashWrite = 20 * time.Millisecond // for one note: a watchdog that does not read must not hold up the rest
	leashEnd   = time.Second           // for its end
	leashSlack = 20 * time.Millisecond // by how much a deadline has moved when it is told anew
)

// leash is this process's side of the watchdog.
type leash struct {
	cmd      *exec.Cmd
	notes    *os.File
	watch    *deadline.Watch
	told     deadline.Instant // the deadline that it knows
	margin   time.Duration    // likewise
	broken   error            // why it is told nothing any more
	class    string
	key      string
	jsonText bool
}

// startLeash starts a watchdog and waits until it is there.
func startLeash(env []string, o *runOptions) (*leash, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	l := &leash{notes: write, watch: deadline.NewWatch(deadline.System()), class: o.class, key: o.key, jsonText: o.json()}
	l.cmd = exec.Command(selfProgram, helperName, "watchdog")
	l.cmd.Stdin, l.cmd.Stderr, l.cmd.Env, l.cmd.Dir = read, os.Stderr, env, "/"
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := l.cmd.StdoutPipe()
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		write.Close()
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	if err := awaitReady(out); err != nil {
		l.end()
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return l, nil
}

// awaitReady waits for the first byte of a pipe.
func awaitReady(pipe io.Reader) error {
	if f, ok := pipe.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(gateTime))
	}
	var ready [1]byte
	if _, err := io.ReadFull(pipe, ready[:]); err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return nil
}

// begin tells it the group, and until when that may be there.
func (l *leash) begin(g group, lease *client.Lease, margin time.Duration) error {
	l.tell(watchNote{Group: g.id, Class: l.class, Key: l.key, JSON: l.jsonText}, lease, margin)
	return l.broken
}

// follow tells it a deadline that has moved.
func (l *leash) follow(lease *client.Lease, margin time.Duration) {
	if left := lease.Remaining(); left > 0 && (l.watch.Now().Add(left) > l.told.Add(leashSlack) || margin != l.margin) {
		l.tell(watchNote{}, lease, margin)
	}
}

func (l *leash) tell(n watchNote, lease *client.Lease, margin time.Duration) {
	now := l.watch.Now()
	n.At = deadline.System().Read() // before Remaining: what passes in between makes the deadline earlier
	n.Left, n.Margin = lease.Remaining(), margin
	l.told, l.margin = now.Add(n.Left), margin
	l.write(n)
}

func (l *leash) write(n watchNote) {
	if l.broken != nil {
		return
	}
	raw, err := json.Marshal(n)
	if err == nil {
		_ = l.notes.SetWriteDeadline(time.Now().Add(leashWrite))
		_, err = l.notes.Write(append(raw, '\n'))
	}
	l.broken = err
}

// end tells it to leave the group alone, and waits until it has ended: from then on the group's number may be another's. One that does
// not end is killed.
func (l *leash) end() {
	l.write(watchNote{Done: true})
	l.notes.Close()
	kill := time.AfterFunc(leashEnd, func() { _ = l.cmd.Process.Kill() })
	defer kill.Stop()
	_ = l.cmd.Wait() // how it ended is of no interest
}
