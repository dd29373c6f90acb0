package review

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textLimits bounds one field of free text. Lengths are in characters, as JSON Schema counts them.
type textLimits struct {
	field    string
	charsMax int
	lines    bool // line breaks may be written
}

var (
	descriptionText = textLimits{field: "description", charsMax: 2000, lines: true}
	resourceText    = textLimits{field: "resource", charsMax: 512}
	guardText       = textLimits{field: "guard", charsMax: 1000}
	groupText       = textLimits{field: "owner", charsMax: 200}
	reasonText      = textLimits{field: "reason", charsMax: 2000, lines: true}
	labelText       = textLimits{field: "label", charsMax: 512}
	urlText         = textLimits{field: "url", charsMax: 2000}
)

func (l textLimits) accepts(s string) bool { return l.problem(s) == "" }

// problem says what is wrong with s, or nothing.
func (l textLimits) problem(s string) string {
	switch {
	case strings.TrimFunc(s, blank) == "":
		return "is blank"
	case utf8.RuneCountInString(s) > l.charsMax:
		return fmt.Sprintf("has %d characters, and %d are allowed", utf8.RuneCountInString(s), l.charsMax)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	for _, r := range s {
		if hidden(r) && !(l.lines && r == '\n') {
			return fmt.Sprintf("has the hidden character %U", r)
		}
	}
	return ""
}

func blank(r rune) bool { return unicode.IsSpace(r) }

// hidden reports whether r changes how text looks or is read without being seen: control characters, the marks that turn
// the direction of writing, line separators, and the sign of bytes lost. What is signed must be what is read.
func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff,
		r == utf8.RuneError:
		return true
	}
	return false
}

// shorten quotes a piece of a file so that it fits into a message.
func shorten(s string) string {
	const charsMax = 40
	if utf8.RuneCountInString(s) > charsMax {
		s = string([]rune(s)[:charsMax]) + "…"
	}
	return strconv.Quote(s)
}

// nearest is the candidate that s most likely misspells, or nothing.
func nearest(s string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		if len(s) <= 2*len(c) {
			if d := editDistance(s, c); d < bestDistance {
				best, bestDistance = c, d
			}
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
