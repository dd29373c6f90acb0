package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Severity says whether a finding refuses the file.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // the file is refused
	SeverityWarning Severity = "warning" // the file stands; whoever signs it must tick the warning
)

// Finding is one thing to say about a class file.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1
	Column   int      `json:"column"` // from 1, in characters
	Rule     RuleID   `json:"rule"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"` // what is wrong
	Remedy   string   `json:"remedy"`  // how to mend it
}

// Findings are everything there is to say about one or more files, ordered by file, line, column and rule.
type Findings []Finding

// ErrInvalidClassFile is what Findings.Err wraps: the file is refused and must be mended.
var ErrInvalidClassFile = errors.New("invalid class file")

// Errors are the findings that refuse the file.
func (fs Findings) Errors() Findings { return fs.of(SeverityError) }

// Warnings are the findings that a signer must tick.
func (fs Findings) Warnings() Findings { return fs.of(SeverityWarning) }

// Err is nil when nothing refuses the file, and else an error that wraps ErrInvalidClassFile and tells the first finding.
func (fs Findings) Err() error {
	errs := fs.Errors()
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: %s", ErrInvalidClassFile, errs[0].text())
	}
	return fmt.Errorf("%w: %s (and %d more)", ErrInvalidClassFile, errs[0].text(), len(errs)-1)
}

// Rules are the ids of the findings' rules, sorted, each once.
func (fs Findings) Rules() []RuleID {
	rules := make([]RuleID, 0, len(fs))
	for _, f := range fs {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func (fs Findings) of(s Severity) Findings {
	var found Findings
	for _, f := range fs {
		if f.Severity == s {
			found = append(found, f)
		}
	}
	return found
}

// Sort orders findings of several files as the renderers expect them.
func (fs Findings) Sort() {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
}
