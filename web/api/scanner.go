package api

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// badRequest says which part of a request is wrong and why. Field is empty for the body as a whole.
type badRequest struct {
	field string
	why   string
}

func (b *badRequest) Error() string {
	if b.field == "" {
		return b.why
	}
	return b.field + ": " + b.why
}

// errText is returned for a JSON string that is none, or not UTF-8, or half a surrogate pair.
var errText = errors.New("must be a JSON string of valid UTF-8")

// scanner reads one flat JSON object strictly: names are matched exactly and come once, text is UTF-8 as it stands, and
// nothing follows the object. Names of locks are compared byte for byte, so nothing may be replaced on the way in, as
// encoding/json would.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take skips white space and then c, and reports whether it was there.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// object reads the object whose fields are names, at most 32, and calls value with the number of each that is there.
func (s *scanner) object(names []string, value func(field int) error) error {
	if err := s.fields(names, value); err != nil {
		return err
	}
	return s.end()
}

// fields is object for one that stands within another.
func (s *scanner) fields(names []string, value func(field int) error) error {
	if !s.take('{') {
		return &badRequest{"", "the body must be one JSON object"}
	}
	seen := uint32(0)
	for first := true; ; first = false {
		if s.take('}') {
			return nil
		}
		if !first && !s.take(',') {
			return &badRequest{"", "the body is not JSON: a comma or a closing brace is missing"}
		}
		field, err := s.name(names)
		if err != nil {
			return err
		}
		if seen&(1<<field) != 0 {
			return &badRequest{names[field], "is given twice"}
		}
		seen |= 1 << field
		if err := value(field); err != nil {
			return err
		}
	}
}

func (s *scanner) end() error {
	if s.space(); s.at < len(s.data) {
		return &badRequest{"", "something follows the JSON object"}
	}
	return nil
}

// name reads a field's name and the colon.
func (s *scanner) name(names []string) (int, error) {
	name, err := s.text()
	if err != nil || !s.take(':') {
		return 0, &badRequest{"", "the body is not JSON: a field's name is missing"}
	}
	for i, known := range names {
		if name == known {
			return i, nil
		}
	}
	return 0, &badRequest{clip(name), "is not a field of this request; it takes " + strings.Join(names, ", ")}
}

// clip bounds a name that an answer repeats.
func clip(name string) string {
	const bytesMax = 64
	if len(name) <= bytesMax {
		return name
	}
	cut := bytesMax
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}

// text reads a JSON string.
func (s *scanner) text() (string, error) {
	if !s.take('"') {
		return "", errText
	}
	start := s.at
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			text := s.data[start:s.at]
			s.at++
			if !utf8.Valid(text) {
				return "", errText
			}
			return string(text), nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", errText
		}
		s.at++
	}
	return "", errText
}

// escaped goes on reading a string that began at start, from its first backslash.
func (s *scanner) escaped(start int) (string, error) {
	b := append(make([]byte, 0, s.at-start+64), s.data[start:s.at]...)
	for s.at < len(s.data) {
		c := s.data[s.at]
		s.at++
		switch {
		case c == '"':
			if !utf8.Valid(b) {
				return "", errText
			}
			return string(b), nil
		case c < 0x20:
			return "", errText
		case c != '\\':
			b = append(b, c)
		default:
			r, ok := s.escape()
			if !ok {
				return "", errText
			}
			b = utf8.AppendRune(b, r)
		}
	}
	return "", errText
}

var simpleEscapes = [...]struct{ written, meant byte }{
	{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'},
}

// escape reads what follows a backslash.
func (s *scanner) escape() (rune, bool) {
	if s.at >= len(s.data) {
		return 0, false
	}
	c := s.data[s.at]
	s.at++
	if c == 'u' {
		return s.escapedRune()
	}
	for _, e := range simpleEscapes {
		if e.written == c {
			return rune(e.meant), true
		}
	}
	return 0, false
}

func (s *scanner) escapedRune() (rune, bool) {
	high, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(high) {
		return high, ok
	}
	if s.at+2 > len(s.data) || s.data[s.at] != '\\' || s.data[s.at+1] != 'u' {
		return 0, false
	}
	s.at += 2
	low, ok := s.hex4()
	r := utf16.DecodeRune(high, low)
	return r, ok && r != utf8.RuneError
}

func (s *scanner) hex4() (rune, bool) {
	r := rune(0)
	for range 4 {
		if s.at >= len(s.data) {
			return 0, false
		}
		switch c := s.data[s.at]; {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
		s.at++
	}
	return r, true
}

// boolean reads true or false.
func (s *scanner) boolean() (value, ok bool) {
	s.space()
	rest := s.data[s.at:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		s.at += 4
		return true, true
	case len(rest) >= 5 && string(rest[:5]) == "false":
		s.at += 5
		return false, true
	}
	return false, false
}

// whole reads a whole number of 1 or more, without sign, fraction or exponent.
func (s *scanner) whole() (uint64, bool) {
	s.space()
	start := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	if start == s.at || s.data[start] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[start:s.at]), 10, 64)
	return n, err == nil
}

// duration reads a duration in the API's notation.
func (s *scanner) duration() (wire.Duration, error) {
	text, err := s.text()
	if err != nil {
		return 0, wire.ErrDuration
	}
	return wire.ParseDuration(text)
}
