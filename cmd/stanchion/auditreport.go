package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// auditReport is what `audit verify` found. It is gathered while the checks run, and printed once.
type auditReport struct {
	File     string           `json:"file"`
	Whole    bool             `json:"whole"`
	Findings []string         `json:"findings"`       // what is not whole, and where
	Rows     uint64           `json:"rows,omitempty"` // of an export
	Export   *auditStanding   `json:"export,omitempty"`
	Logs     []auditFileLog   `json:"logs,omitempty"`  // of a node's file
	Today    []auditLogToday  `json:"today,omitempty"` // with --now
	Event    *wire.AuditEvent `json:"event,omitempty"` // with --row

	text strings.Builder // the same for people
}

// auditFileLog is one log in a node's file.
type auditFileLog struct {
	Log         string          `json:"log"`
	Incarnation uint64          `json:"incarnation"`
	Events      uint64          `json:"events"`
	Recomputed  uint64          `json:"recomputed"` // events whose content was hashed again
	Erased      uint64          `json:"erased"`     // of those, without their personal text
	Dropped     uint64          `json:"dropped"`    // past their retention
	Unnumbered  uint64          `json:"unnumbered"` // waiting for a gap to be filled
	Rows        uint64          `json:"rows"`
	Root        string          `json:"root"`
	Gaps        []wire.AuditGap `json:"gaps"`
}

// auditLogToday is a log that begins with the rows of an export.
type auditLogToday struct {
	Log  string `json:"log"`
	Then uint64 `json:"rows_exported"`
	Now  uint64 `json:"rows"`
}

func newAuditReport(file string) *auditReport {
	return &auditReport{File: file, Whole: true, Findings: []string{}}
}

// say adds to what people read.
func (r *auditReport) say(format string, args ...any) { fmt.Fprintf(&r.text, format, args...) }

// notWhole adds what is wrong with what was looked at.
func (r *auditReport) notWhole(what string, findings ...string) {
	r.Whole, r.Findings = false, append(r.Findings, findings...)
	for _, f := range findings {
		r.say("NOT WHOLE: %s: %s\n", what, visible(f))
	}
}

// print writes the report, and ends the command with a failure when something is not whole.
func (r *auditReport) print(out io.Writer, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(out, r)
	} else {
		_, err = io.WriteString(out, r.text.String())
	}
	if err == nil && !r.Whole {
		err = exitError(exitFailed)
	}
	return err
}
