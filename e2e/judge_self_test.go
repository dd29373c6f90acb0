package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// at is a moment of a made-up history, in seconds.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func history(claims ...claim) *judge {
	j := newJudge()
	for _, c := range claims {
		j.note(c.id, func(noted *claim) { *noted = c })
	}
	return j
}

func TestJudge_acceptsAHistoryThatKeepsTheRules(t *testing.T) {
	j := history(
		claim{id: "a", key: "k", asked: at(1), lined: at(2), from: at(2), to: at(10), token: 1},
		claim{id: "b", key: "k", asked: at(3), lined: at(4), from: at(10), to: at(20), token: 3},
		claim{id: "c", key: "k", asked: at(3), lined: at(5), from: at(20), to: at(30), token: 4}, // beside b: any order
		claim{id: "d", key: "k", asked: at(6), lined: at(7)},
		claim{id: "e", key: "other", asked: at(3), lined: at(4), from: at(4), to: at(30), token: 2},
	)
	if got := j.verdict(); len(got) != 0 {
		t.Errorf("verdict: got %q, want none", got)
	}
}

func TestJudge_objectsToWhatBreaksTheRules(t *testing.T) {
	first := claim{id: "a", key: "k", asked: at(1), lined: at(2), from: at(2), to: at(10), token: 5}
	for name, c := range map[string]struct {
		with claim
		says string
	}{
		"two hold at a time":        {claim{id: "b", key: "k", asked: at(3), lined: at(4), from: at(9), to: at(19), token: 6}, "1s before the end of a"},
		"a token comes twice":       {claim{id: "b", key: "other", asked: at(3), lined: at(4), from: at(4), to: at(9), token: 5}, "token 5"},
		"no token":                  {claim{id: "b", key: "other", asked: at(3), lined: at(4), from: at(4), to: at(9)}, "token 0"},
		"the later one comes first": {claim{id: "b", key: "k", asked: at(3), lined: at(4), from: at(12), to: at(19), token: 4}, "was served before a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(history(first, c.with).verdict(), "\n"); !strings.Contains(got, c.says) {
				t.Errorf("verdict: got %q, want %q in it", got, c.says)
			}
		})
	}
}

func TestJudge_objectsToAWaiterPassedOver(t *testing.T) {
	passedOver := claim{id: "a", key: "k", asked: at(1), lined: at(2)}
	served := claim{id: "b", key: "k", asked: at(3), lined: at(4), from: at(5), to: at(9), token: 1}
	if got := strings.Join(history(passedOver, served).verdict(), "\n"); !strings.Contains(got, "a before it was not") {
		t.Errorf("verdict: got %q, want it to name the waiter that was passed over", got)
	}
	passedOver.resigned = true
	if got := history(passedOver, served).verdict(); len(got) != 0 {
		t.Errorf("verdict on a waiter that left: got %q, want none", got)
	}
}
