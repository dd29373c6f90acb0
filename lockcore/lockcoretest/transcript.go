package lockcoretest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// A transcript is text in blocks. A block's lines before "----" are commands; what follows, up to an empty line, is what
// they led to: result, events, and then the state of every lock that the block touched. Each line is an entry of its own,
// unless the first is "batch", which makes the block one entry. What stands after " @ " (after "batch", in a batch)
// stamps the entry: at=5s is the lease clock, which else stays; epoch=2 the epoch, else the one in force. Lines that
// begin with # are for the reader.

// RunTranscript plays a transcript on a new machine and returns it with the recorded parts written anew. Errors name a
// line that cannot be read; a machine that panics, panics.
func RunTranscript(text string) (string, error) {
	p := NewPlayer()
	var out []string
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		played, err := p.block(strings.Split(block, "\n"))
		if err != nil {
			return "", err
		}
		out = append(out, strings.Join(played, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n", nil
}

// Player applies lines to a machine, each as an entry of its own at the next index. Not safe for concurrent use.
type Player struct {
	Machine *lockcore.Machine
	touched []lockOf
}

// NewPlayer has an empty machine.
func NewPlayer() *Player { return &Player{Machine: lockcore.New()} }

// Line applies one line, with its stamps if it has any.
func (p *Player) Line(text string) (lockcore.Result, []lockcore.Event, error) {
	e, err := p.read("", []string{text})
	if err != nil {
		return lockcore.Result{}, nil, err
	}
	results, events, err := p.apply(e)
	if err != nil {
		return lockcore.Result{}, nil, err
	}
	return results[0], events, nil
}

type lockOf struct {
	tenant lockcore.TenantID
	lockName
}

func (p *Player) block(lines []string) (played []string, err error) {
	input, said := lines, []string(nil)
	if cut := slices.Index(lines, "----"); cut >= 0 {
		input = lines[:cut]
	}
	played = slices.Clone(input)
	commands := slices.DeleteFunc(slices.Clone(input), func(l string) bool { return strings.HasPrefix(l, "#") })
	if len(commands) == 0 {
		return played, nil
	}
	p.touched = nil
	if strings.HasPrefix(commands[0], "batch") {
		said, err = p.entry(strings.TrimPrefix(commands[0], "batch"), commands[1:])
	} else {
		for _, c := range commands {
			var answer []string
			if answer, err = p.entry("", []string{c}); err != nil {
				break
			}
			said = append(said, answer...)
		}
	}
	return append(append(append(played, "----"), said...), p.locks()...), err
}

// entry applies one entry and tells what came of it. With a batch, stamps stand apart; else they end the one line.
func (p *Player) entry(stamps string, lines []string) ([]string, error) {
	e, err := p.read(stamps, lines)
	if err != nil {
		return nil, err
	}
	results, events, err := p.apply(e)
	return p.report(e, results, events), err
}

func (p *Player) read(stamps string, lines []string) (lockcore.Entry, error) {
	e := lockcore.Entry{Epoch: p.Machine.Epoch(), ClockMS: p.Machine.LeaseClockMS()}
	for i, l := range lines {
		c, own, _ := strings.Cut(l, " @ ")
		if i == 0 && stamps == "" {
			stamps = own
		}
		command, err := ParseCommand(c)
		if err != nil {
			return e, err
		}
		e.Commands = append(e.Commands, command)
	}
	w, err := split(stamps)
	if err != nil {
		return e, err
	}
	e.ClockMS, e.Epoch = w.span("at", e.ClockMS), lockcore.Epoch(w.number("epoch", uint64(e.Epoch)))
	return e, w.end()
}

func (p *Player) apply(e lockcore.Entry) ([]lockcore.Result, []lockcore.Event, error) {
	b, err := e.Encode()
	if err != nil {
		return nil, nil, err
	}
	results, events := p.Machine.Apply(p.Machine.Index()+1, b)
	return results, events, nil
}

func (p *Player) report(e lockcore.Entry, results []lockcore.Result, events []lockcore.Event) []string {
	var said []string
	for _, r := range results {
		said = append(said, FormatResult(r))
	}
	for _, ev := range events {
		said = append(said, "  "+FormatEvent(ev))
		p.touch(ev.Tenant, ev.Class, ev.Key)
	}
	for _, c := range e.Commands {
		if id := leaseOf(c); id != (lockcore.LeaseID{}) {
			if l, ok := p.Machine.Lease(TenantOf(c), id); ok {
				p.touch(TenantOf(c), l.Class, l.Key)
			}
		}
	}
	return said
}

func (p *Player) touch(tenant lockcore.TenantID, class lockcore.ClassName, key lockcore.Key) {
	l := lockOf{tenant, lockName{class, key}}
	if key != "" && !slices.Contains(p.touched, l) {
		p.touched = append(p.touched, l)
	}
}

func (p *Player) locks() []string {
	var said []string
	for _, t := range p.touched {
		said = append(said, "= "+formatLock(p.Machine, t))
	}
	return said
}

// FormatResult writes a result as transcripts do.
func FormatResult(r lockcore.Result) string {
	l := say(r.Outcome.String())
	if r.Reason != 0 {
		l.b.WriteString(" " + r.Reason.String())
	}
	return l.number("token", uint64(r.Token), 0).number("epoch", uint64(r.Epoch), 0).String()
}

// FormatEvent writes an event as transcripts do: what tells events apart, without the texts for people that every event
// of a lease repeats.
func FormatEvent(e lockcore.Event) string {
	l := say(e.Kind.String())
	if e.Tenant != "" {
		l.b.WriteString(" " + quote(string(e.Tenant)))
	}
	switch {
	case e.Lease.Sequence != 0:
		l.b.WriteString(" " + leaseName(e.Lease))
	case e.Lease.Session != lockcore.SessionID{}:
		l.b.WriteString(" " + sessionName(e.Lease.Session))
	}
	if e.Class != "" {
		l.b.WriteString(" " + quote(string(e.Class)))
	}
	if e.Key != "" {
		l.b.WriteString("/" + quote(string(e.Key)))
	}
	if e.Reason != 0 {
		l.b.WriteString(" " + e.Reason.String())
	}
	return l.number("token", uint64(e.Token), 0).number("epoch", uint64(e.Epoch), 0).
		number("version", e.Version, 0).text("by", e.By, "").text("note", e.Note, "").
		number("count", e.Count, 0).number("highest", uint64(e.Highest), 0).number("seen", uint64(e.SeenMS), 0).String()
}

func formatLock(m *lockcore.Machine, at lockOf) string {
	said := fmt.Sprintf("%s %s/%s:", at.tenant, at.class, at.key)
	lock, ok := m.Lock(at.tenant, at.class, at.key)
	if !ok {
		return said + " free"
	}
	switch h := lock.Holder; {
	case h != nil:
		said += " " + leaseName(h.ID) + " holds" + formatHold(h)
	case lock.DelayToken != 0:
		said += fmt.Sprintf(" lock delay of token %d, %s", lock.DelayToken, milliseconds(lock.DelayMS))
	default:
		said += " nobody holds"
	}
	for i, w := range m.Waiters(at.tenant, at.class, at.key, lock.Waiters) {
		if i == 0 {
			said += "; waiting"
		}
		said += " " + leaseName(w.ID)
	}
	return said
}

func formatHold(h *lockcore.Lease) string {
	l := say("").number("token", uint64(h.Token), 0).number("version", h.Version, 0).span("until", h.DeadlineMS, 0).
		flag("handed", h.Handed)
	if h.Ending != 0 {
		l.b.WriteString(" ending=" + h.Ending.String())
	}
	return l.String()
}

// leaseOf is the lease that a command names, or zero.
func leaseOf(c lockcore.Command) lockcore.LeaseID {
	switch c := c.(type) {
	case lockcore.Acquire:
		return c.Lease
	case lockcore.Release:
		return c.Lease
	case lockcore.Expire:
		return c.Lease
	case lockcore.Leave:
		return c.Lease
	case lockcore.MarkEnding:
		return c.Lease
	case lockcore.Extend:
		return c.Lease
	}
	return lockcore.LeaseID{}
}

// FormatEntries writes entries as blocks of a transcript without recorded answers.
func FormatEntries(entries []lockcore.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		stamp := fmt.Sprintf("at=%s epoch=%d", milliseconds(e.ClockMS), e.Epoch)
		if len(e.Commands) == 1 {
			fmt.Fprintf(&b, "%s @ %s\n\n", FormatCommand(e.Commands[0]), stamp)
			continue
		}
		fmt.Fprintf(&b, "batch %s\n", stamp)
		for _, c := range e.Commands {
			b.WriteString(FormatCommand(c) + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}
