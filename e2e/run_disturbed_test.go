package e2e_test

import (
	"errors"
	"strconv"
	"syscall"
	"testing"
)

// stubborn is a command that does not mind TERM, with a grandchild that does not either. Both write down, again and again, that they
// run.
const stubborn = `trap 'date +%s%N >> term' TERM
( trap '' TERM; while :; do date +%s%N >> grandchild; sleep 0.05; done ) &
echo $! > grandchild.pid.part; mv grandchild.pid.part grandchild.pid
while :; do date +%s%N >> child; sleep 0.05; done`

// next is the command of the one who waits.
const next = `date +%s%N >> next`

// disturbed has a stubborn command run under a lock for which another one waits, disturbs it, and wants every process of it gone when the
// other one begins, by the times that they wrote down themselves.
func disturbed(t *testing.T, s *runScene, nodes []string, disturb func(first *process)) (first *process) {
	t.Helper()
	first = s.start(nodes, stubborn)
	s.awaitFile("grandchild.pid")
	s.awaitFile("grandchild")
	t.Cleanup(func() {
		if e, ok := runEventOf(first, "started"); ok && t.Failed() {
			kill9(-e.PID)
		}
	})
	second := s.start(s.direct, next)
	if e := s.awaitTold(second, "waiting"); e.Place != 1 {
		t.Errorf("the waiter: got %+v, want place 1", e)
	}
	disturb(first)
	second.wait(t)
	second.wantExit(t, 0)
	began := s.moments("next")[0]
	for _, process := range []string{"child", "grandchild"} {
		all := s.moments(process)
		if last := all[len(all)-1]; last >= began {
			t.Errorf("the %s ran %d ns after the next command had begun, want before", process, last-began)
		}
	}
	a, _ := runEventOf(first, "granted")
	b, _ := runEventOf(second, "granted")
	if a.Token == 0 || b.Token <= a.Token {
		t.Errorf("tokens: got %d after %d, want a higher one after one", b.Token, a.Token)
	}
	if pid, err := strconv.Atoi(s.awaitFile("grandchild.pid")); err != nil || !gone(pid) {
		t.Errorf("the grandchild %d, %v: is there still", pid, err)
	}
	return first
}

// runCutOff: requests of the first one vanish. It gets TERM at its margin before the local deadline and is killed before it.
func runCutOff(t *testing.T, s *runScene) {
	proxy := newRunProxy(t, s.c.file)
	first := disturbed(t, s, proxy.urls, func(*process) { proxy.swallowAll() })
	first.wait(t)
	first.wantExit(t, 121)
	if e, ok := runEventOf(first, "terminating"); !ok || e.LeftMS <= 0 || e.LeftMS > 2000 {
		t.Errorf("the command was told to end: got %v %+v, want with up to 2000 ms left", ok, e)
	}
	if e, ok := runEventOf(first, "killing"); !ok || e.LeftMS > 1000 {
		t.Errorf("the command was killed: got %v %+v, want with up to 1000 ms left", ok, e)
	}
	if _, ok := runEventOf(first, "doubt"); !ok {
		t.Errorf("it told no doubt:\n%s", first.out.String())
	}
	s.moments("term")
}

// runKilled: stanchion run itself is killed. Its watchdog ends the group.
func runKilled(t *testing.T, s *runScene) {
	disturbed(t, s, s.direct, func(first *process) { kill9(first.cmd.Process.Pid) })
	s.moments("term")
}

// runPaused: stanchion run is stopped. Its watchdog ends the group before the lease ends, and it says so when it goes on.
func runPaused(t *testing.T, s *runScene) {
	first := disturbed(t, s, s.direct, func(first *process) { _ = syscall.Kill(first.cmd.Process.Pid, syscall.SIGSTOP) })
	_ = syscall.Kill(first.cmd.Process.Pid, syscall.SIGCONT)
	first.wait(t)
	first.wantExit(t, 121, `"event":"watchdog"`, `"event":"lost"`)
	s.moments("term")
}

// runForced: the lock is force-released. The command is ended before the next one is granted.
func runForced(t *testing.T, s *runScene) {
	first := disturbed(t, s, s.direct, func(first *process) {
		e, _ := runEventOf(first, "granted")
		s.c.command(s.c.file.AdminKey, 0, nil, "locks", "force-release", "ledger-close", s.key,
			"--token", strconv.FormatUint(e.Token, 10), "--reason", "test", "--yes")
	})
	first.wait(t)
	first.wantExit(t, 121, `"event":"terminating"`, "ended from outside")
}

// errNoHeartbeat: the leader has not heard of the holder yet.
var errNoHeartbeat = errors.New("no heartbeat under the present leader yet")

// runOverLeader: the leader is killed under a command, which notices nothing.
func runOverLeader(t *testing.T, s *runScene) {
	p := s.start(s.direct, `echo "$STANCHION_TOKEN" > token; while [ ! -e go ]; do sleep 0.05; done; exit 7`)
	token := s.awaitFile("token")
	kill9(s.c.pid(s.c.leader()))
	await(t, "the next leader to have heard of the holder", func() error {
		l := s.lock()
		switch {
		case p.ended():
			t.Fatalf("stanchion run ended: %v\n%s", p.cmd.ProcessState, p.out.String())
		case l == nil || l.Holder == nil:
			t.Fatalf("the lock: got %+v, want held", l)
		case strconv.FormatUint(l.Holder.Token, 10) != token:
			t.Fatalf("token of the holder: got %d, want %s", l.Holder.Token, token)
		case l.Holder.LastHeartbeat == nil:
			return errNoHeartbeat
		}
		return nil
	})
	s.touch("go")
	p.wait(t)
	p.wantExit(t, 7, `"event":"released"`)
	s.wantFree()
}
