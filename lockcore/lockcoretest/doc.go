// Package lockcoretest is what tests of the lock state machine share: commands and answers as readable lines, a runner
// of transcripts, a generator of command sequences, a naive sequential model of the rules, and a checker of invariants
// over the stream of events.
//
// It knows the machine by its exported names only. The model and the checker share no code with it, nor with each other,
// so that one mistake does not hide another.
package lockcoretest
