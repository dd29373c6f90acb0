package wire

import (
	"fmt"
	"slices"
	"strings"
)

// Code is the stable name of a problem. Codes are never reused for another meaning.
type Code string

// Retry says what a client may do after a problem.
type Retry string

// The ways to go on.
const (
	RetrySameID Retry = "same_id" // repeat the same request with the same lease id, at any node
	RetryNewID  Retry = "new_id"  // this id is used up or wrong; ask again with a new one
	RetryLater  Retry = "later"   // the same request may succeed later; see Retry-After
	RetryNever  Retry = "never"   // the request itself must change
)

// Problem is an error answer, as RFC 9457 has it, with what a program needs besides. It is an error.
type Problem struct {
	Type     string `json:"type"` // a URN made of the code
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`   // what happened this time
	Instance string `json:"instance,omitempty"` // a URN made of the request id

	Code      Code          `json:"code"`
	Retry     Retry         `json:"retry"`
	Remedy    string        `json:"remedy"`             // what to do
	Field     string        `json:"field,omitempty"`    // of invalid_request: which part of the request
	Reason    string        `json:"reason,omitempty"`   // of a refusal or an end: the state machine's own name for it
	Scope     string        `json:"scope,omitempty"`    // of forbidden: the scope that was missing
	Leader    *Leader       `json:"leader,omitempty"`   // who leads, where it is known
	Lease     *Lease        `json:"lease,omitempty"`    // what is known of the lease
	Parts     []Part        `json:"parts,omitempty"`    // of not_ready
	Findings  []FileFinding `json:"findings,omitempty"` // of a class file: everything that is wrong with it, and its warnings
	RequestID string        `json:"request_id,omitempty"`
}

// Leader names the node that leads a tenant's partition.
type Leader struct {
	Node string `json:"node"`
	URL  string `json:"url,omitempty"`
}

// Error is the code and what happened.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code) + ": " + p.Title
	}
	return string(p.Code) + ": " + p.Detail
}

// ProblemKind is one row of the published table: what a code always means.
type ProblemKind struct {
	Code              Code
	Status            int
	Retry             Retry
	RetryAfterSecsMax int // the answer's Retry-After is 1 to this many seconds, drawn at random; 0: none
	Title             string
	Remedy            string
}

// NewProblem makes a problem of a kind; detail says what happened this time. An unknown code is a mistake of the program
// and panics.
func NewProblem(code Code, detail string) *Problem {
	kind, ok := KindOf(code)
	if !ok {
		panic(fmt.Sprintf("wire: no problem has the code %q", code))
	}
	return &Problem{Type: "urn:stanchion:problem:" + string(code), Title: kind.Title, Status: kind.Status,
		Detail: detail, Code: code, Retry: kind.Retry, Remedy: kind.Remedy}
}

// KindOf finds the row of a code.
func KindOf(code Code) (ProblemKind, bool) {
	kind, ok := kindByCode[code]
	return kind, ok
}

// Problems lists the whole table, in the order in which it is published. The slice is the caller's own.
func Problems() []ProblemKind { return slices.Clone(problemTable) }

// ProblemTableMarkdown is the published table for the documentation.
func ProblemTableMarkdown() string {
	var b strings.Builder
	b.WriteString("| code | status | retry | what happened | what to do |\n| --- | --- | --- | --- | --- |\n")
	for _, k := range problemTable {
		fmt.Fprintf(&b, "| `%s` | %d | `%s` | %s | %s |\n", k.Code, k.Status, k.Retry, k.Title, k.Remedy)
	}
	return b.String()
}
