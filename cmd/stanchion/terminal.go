package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible is foreign text as it may be printed to a terminal: what would move the cursor, change colours, hide or reorder
// what stands beside it is written as an escape of Go's. Text that needs none is unchanged, a backslash apart, so that no
// two texts look the same.
func visible(text string) string {
	if !strings.ContainsFunc(text, concealed) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:])
		case r == '\\':
			b.WriteString(`\\`)
		case concealed(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// concealed reports whether a character is not seen as itself: controls, formats such as those of writing direction, and
// spaces other than the space.
func concealed(r rune) bool { return r == '\\' || r != ' ' && !unicode.IsPrint(r) }
