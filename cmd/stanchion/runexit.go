package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Exit codes of `stanchion run` itself. They are part of its contract; otherwise its code is the command's own.
const (
	exitNotGranted  = 120
	exitLost        = 121
	exitRefused     = 122
	exitUnavailable = 123
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of a signal
)

// exitMeaning is one row of the table of exit codes, in the help and in docs/run.md.
type exitMeaning struct{ code, meaning string }

// runExits are what the codes mean. Any other is the command's.
var runExits = []exitMeaning{
	{"0", "the command ended with 0; or skipped: somebody holds the lock, and --if-held is skip"},
	{fmt.Sprint(exitUsage), "wrong usage, or an API key, a profile or a certificate that cannot be read; nothing was asked"},
	{fmt.Sprint(exitNotGranted), "not granted in time, or held and --if-held is fail; the command was not started"},
	{fmt.Sprint(exitLost), "the lease was lost before the command had ended, and the command was ended"},
	{fmt.Sprint(exitRefused), "refused: the class grants nothing, or the API key may not; the command was not started"},
	{fmt.Sprint(exitUnavailable), "no node decided; the command was not started"},
	{fmt.Sprint(exitCannotRun), "the command could not be started"},
	{fmt.Sprint(exitNotFound), "there is no such command"},
	{fmt.Sprint(exitSignal) + "+n", "signal n ended the command, or the wait"},
}

// exitHelp is the table as the help has it.
func exitHelp() string {
	var b strings.Builder
	for _, e := range runExits {
		fmt.Fprintf(&b, "  %-6s %s\n", e.code, e.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// commandExit is the code of a command that has ended, as a shell gives it, and the signal that ended it, if one did.
func commandExit(s *os.ProcessState) (code int, by syscall.Signal) {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal()), status.Signal()
	}
	return s.ExitCode(), 0
}
