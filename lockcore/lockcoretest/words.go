package lockcoretest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// ErrSyntax is returned for a line that is no command.
var ErrSyntax = errors.New("not a transcript line")

// sessionName spells a session: the small ones that tests draw as s1 to s65535, others in full.
func sessionName(id lockcore.SessionID) string {
	for _, b := range id[:14] {
		if b != 0 {
			return id.String()
		}
	}
	return "s" + strconv.Itoa(int(id[14])<<8|int(id[15]))
}

// SessionNumber is the session that transcripts call s<n>.
func SessionNumber(n uint16) lockcore.SessionID {
	return lockcore.SessionID{14: byte(n >> 8), 15: byte(n)}
}

// LeaseNumber is the lease that transcripts call s<session>.<sequence>.
func LeaseNumber(session uint16, sequence uint64) lockcore.LeaseID {
	return lockcore.LeaseID{Session: SessionNumber(session), Sequence: sequence}
}

// ReporterNumber is the reporter that transcripts call g<n>.
func ReporterNumber(n uint16) lockcore.ReporterID {
	return lockcore.ReporterID{14: byte(n >> 8), 15: byte(n)}
}

// reporterName spells a reporter: the small ones that tests draw as g0 to g65535, others in full.
func reporterName(id lockcore.ReporterID) string {
	if n := uint16(id[14])<<8 | uint16(id[15]); id == ReporterNumber(n) {
		return "g" + strconv.Itoa(int(n))
	}
	return hex.EncodeToString(id[:])
}

func leaseName(id lockcore.LeaseID) string {
	return sessionName(id.Session) + "." + strconv.FormatUint(id.Sequence, 10)
}

func parseSession(s string) (lockcore.SessionID, error) {
	if digits, ok := strings.CutPrefix(s, "s"); ok {
		n, err := strconv.ParseUint(digits, 10, 16)
		return SessionNumber(uint16(n)), err
	}
	return lockcore.ParseSessionID(s)
}

func parseLease(s string) (lockcore.LeaseID, error) {
	session, digits, _ := strings.Cut(s, ".")
	id, err := parseSession(session)
	if err != nil {
		return lockcore.LeaseID{}, err
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return lockcore.LeaseID{Session: id, Sequence: n}, err
}

func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// words is a line in the making, or one taken apart: bare words in order, and name=value pairs.
type words struct {
	bare  []string
	named map[string]string
	err   error
}

func quote(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '=' || r == '#' || r == '`'
	})
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// line builds the written form of a command.
type line struct{ b strings.Builder }

func say(verb string, bare ...string) *line {
	l := &line{}
	l.b.WriteString(verb)
	for _, w := range bare {
		l.b.WriteString(" " + quote(w))
	}
	return l
}

func (l *line) text(name, value, usual string) *line {
	if value != usual {
		l.b.WriteString(" " + name + "=" + quote(value))
	}
	return l
}

func (l *line) number(name string, value, usual uint64) *line {
	return l.text(name, strconv.FormatUint(value, 10), strconv.FormatUint(usual, 10))
}

func (l *line) integer(name string, value, usual int) *line {
	return l.text(name, strconv.Itoa(value), strconv.Itoa(usual))
}

func (l *line) span(name string, value, usual int64) *line {
	return l.text(name, milliseconds(value), milliseconds(usual))
}

func (l *line) flag(name string, on bool) *line {
	if on {
		l.b.WriteString(" " + name)
	}
	return l
}

func (l *line) String() string { return l.b.String() }

// split takes a line apart. Values may be quoted as Go strings.
func split(s string) (*words, error) {
	w := &words{named: map[string]string{}}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end := strings.IndexAny(s, "=\" ")
		label := ""
		if end >= 0 && s[end] == '=' {
			label, s = s[:end], s[end+1:]
		}
		value, rest, err := firstValue(s)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", ErrSyntax, s)
		}
		if s = rest; label != "" {
			w.named[label] = value
		} else {
			w.bare = append(w.bare, value)
		}
	}
	return w, nil
}

func firstValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return value, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", err
	}
	value, err = strconv.Unquote(quoted)
	return value, s[len(quoted):], err
}

// next takes the next bare word.
func (w *words) next() string {
	if len(w.bare) == 0 {
		w.fail("a word is missing")
		return ""
	}
	first := w.bare[0]
	w.bare = w.bare[1:]
	return first
}

func (w *words) fail(why string) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s", ErrSyntax, why)
	}
}

// take removes a named value, or answers the usual one.
func (w *words) take(name, usual string) string {
	if v, ok := w.named[name]; ok {
		delete(w.named, name)
		return v
	}
	return usual
}

func (w *words) number(name string, usual uint64) uint64 {
	n, err := strconv.ParseUint(w.take(name, strconv.FormatUint(usual, 10)), 10, 64)
	w.check(err)
	return n
}

func (w *words) integer(name string, usual int) int {
	n, err := strconv.Atoi(w.take(name, strconv.Itoa(usual)))
	w.check(err)
	return n
}

func (w *words) span(name string, usual int64) int64 {
	d, err := time.ParseDuration(w.take(name, milliseconds(usual)))
	w.check(err)
	return d.Milliseconds()
}

// flag takes a bare word that stands for true.
func (w *words) flag(name string) bool {
	for i, b := range w.bare {
		if b == name {
			w.bare = append(w.bare[:i:i], w.bare[i+1:]...)
			return true
		}
	}
	return false
}

func (w *words) session() lockcore.SessionID {
	id, err := parseSession(w.next())
	w.check(err)
	return id
}

func (w *words) lease() lockcore.LeaseID {
	id, err := parseLease(w.next())
	w.check(err)
	return id
}

func (w *words) reporter() (id lockcore.ReporterID) {
	s := w.next()
	if digits, ok := strings.CutPrefix(s, "g"); ok {
		n, err := strconv.ParseUint(digits, 10, 16)
		w.check(err)
		return ReporterNumber(uint16(n))
	}
	b, err := hex.DecodeString(s)
	if w.check(err); len(b) != len(id) {
		w.fail("a reporter is 32 hexadecimal digits")
		return id
	}
	return lockcore.ReporterID(b)
}

func (w *words) hash(name string) (h [32]byte) {
	b, err := hex.DecodeString(w.take(name, strings.Repeat("0", 64)))
	if w.check(err); len(b) != len(h) {
		w.fail("a hash is 64 hexadecimal digits")
		return h
	}
	return [32]byte(b)
}

func (w *words) check(err error) {
	if err != nil {
		w.fail(err.Error())
	}
}

// end reports the first fault, words left over included.
func (w *words) end() error {
	for n := range w.named {
		w.fail("unknown name " + n)
	}
	if len(w.bare) > 0 {
		w.fail("unknown word " + w.bare[0])
	}
	return w.err
}
