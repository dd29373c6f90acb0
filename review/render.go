package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Text is one line for each finding: file:line:col: severity[rule]: message; remedy.
func (fs Findings) Text() string {
	var b strings.Builder
	for _, f := range fs {
		b.WriteString(f.text())
		b.WriteByte('\n')
	}
	return b.String()
}

func (f Finding) text() string {
	return oneLine(fmt.Sprintf("%s:%d:%d: %s[%s]: %s; %s", f.File, f.Line, f.Column, f.Severity, f.Rule, f.Message, f.Remedy))
}

// oneLine replaces what would break a line or disturb a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) || !unicode.IsGraphic(r) {
			return '�'
		}
		return r
	}, s)
}

// JSON is {"errors": n, "warnings": n, "findings": […]}, indented, with a line break at its end.
func (fs Findings) JSON() []byte {
	report := struct {
		Errors   int      `json:"errors"`
		Warnings int      `json:"warnings"`
		Findings Findings `json:"findings"`
	}{len(fs.Errors()), len(fs.Warnings()), append(Findings{}, fs...)}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(report); err != nil {
		panic(fmt.Sprintf("review: encode findings: %v", err)) // strings and integers alone cannot fail
	}
	return b.Bytes()
}

var (
	annotationData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	annotationProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// Annotations is one workflow command for each finding, which a CI system shows beside the line of the file.
func (fs Findings) Annotations() string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", f.Severity, annotationProperty.Replace(f.File),
			f.Line, f.Column, annotationProperty.Replace(string(f.Rule)), annotationData.Replace(f.Message+"; "+f.Remedy))
	}
	return b.String()
}
