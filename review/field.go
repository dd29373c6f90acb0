package review

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// present notes where a field's value stands, and reports whether there is a scalar to read. An absent field is an error
// only when it is required; an empty one always is.
func (p *parser) present(n *yaml.Node, field string, required bool) bool {
	if n == nil {
		if required {
			p.fail(p.at[""], field, RuleMissingField, field+" is missing", absentRemedy(field))
		}
		return false
	}
	p.at[field] = positionOf(n)
	switch {
	case n.Kind == yaml.AliasNode || tagged(n): // reported by structure
		p.bad[field] = true
	case n.Kind != yaml.ScalarNode:
		p.fail(positionOf(n), field, RuleWrongType, field+" is not a single value", "write one value after "+field+":")
	case n.ShortTag() == "!!null":
		rule := RuleWrongType
		if required {
			rule = RuleMissingField
		}
		p.fail(positionOf(n), field, rule, field+" has no value", absentRemedy(field))
	}
	return !p.bad[field]
}

func absentRemedy(field string) string {
	switch field {
	case "purpose":
		return "write purpose: correctness or purpose: efficiency; it has no default"
	case "enforcement":
		return "write enforcement: fenced or enforcement: advisory; it has no default"
	case "quorum_loss":
		return "write quorum_loss: closed or quorum_loss: open; it has no default"
	case "format":
		return "write format: 1"
	}
	return "write " + field + ": and its value, or leave an optional field out"
}

func (p *parser) fail(at position, field string, rule RuleID, message, remedy string) {
	p.bad[field] = true
	p.errorAt(at, rule, message, remedy)
}

// plainText reads a value that must be text: YAML's numbers, dates and booleans are none.
func (p *parser) plainText(n *yaml.Node, field string) (string, bool) {
	if n.ShortTag() != "!!str" {
		p.fail(positionOf(n), field, RuleWrongType, field+" is not text: "+shorten(n.Value), "put the value in quotes")
		return "", false
	}
	return n.Value, true
}

func (p *parser) format(n *yaml.Node) int {
	if !p.present(n, "format", true) {
		return 0
	}
	if n.ShortTag() != "!!int" || n.Value != "1" {
		p.fail(positionOf(n), "format", RuleUnknownFormat, "format "+shorten(n.Value)+" is not known", "write format: 1")
		return 0
	}
	return 1
}

func (p *parser) name(n *yaml.Node) ClassName {
	if !p.present(n, "class", true) {
		return ""
	}
	s, ok := p.plainText(n, "class")
	if ok && !ClassName(s).Valid() {
		p.fail(positionOf(n), "class", RuleBadName, "the class name "+shorten(s)+" is not allowed",
			"use 1 to 63 lower-case letters, digits and hyphens")
	}
	return ClassName(s)
}

func (p *parser) optionalText(n *yaml.Node, l textLimits) string {
	if n == nil {
		return ""
	}
	return p.text(n, l)
}

func (p *parser) text(n *yaml.Node, l textLimits) string {
	if !p.present(n, l.field, true) {
		return ""
	}
	s, ok := p.plainText(n, l.field)
	if !ok {
		return ""
	}
	if problem := l.problem(s); problem != "" {
		p.fail(positionOf(n), l.field, RuleBadText, l.field+" "+problem,
			fmt.Sprintf("write 1 to %d visible characters", l.charsMax))
		return ""
	}
	return s
}

func (p *parser) owner(n *yaml.Node) Group {
	if !p.present(n, "owner", true) {
		return ""
	}
	s, ok := p.plainText(n, "owner")
	if !ok {
		return ""
	}
	group, prefixed := strings.CutPrefix(s, ownerPrefix)
	if !prefixed || !groupText.accepts(group) || strings.TrimFunc(group, blank) != group {
		p.fail(positionOf(n), "owner", RuleBadOwner, "the owner "+shorten(s)+" is not a group",
			"write group: and the group's name, as in owner: group:ledger-owners")
		return ""
	}
	return Group(group)
}

// enum reads one of a closed list of words.
func enum[T ~string](p *parser, n *yaml.Node, field string, allowed ...T) T {
	if !p.present(n, field, true) {
		return ""
	}
	if n.ShortTag() == "!!str" && slices.Contains(allowed, T(n.Value)) {
		return T(n.Value)
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	p.fail(positionOf(n), field, RuleUnknownValue, field+" cannot be "+shorten(n.Value),
		"write "+strings.Join(words, " or "))
	return ""
}

// duration reads a duration within its limits; the default stands for an absent field.
func (p *parser) duration(n *yaml.Node, l durationLimits, absent time.Duration) time.Duration {
	if n == nil {
		return absent
	}
	if !p.present(n, l.field, false) {
		return 0
	}
	if n.ShortTag() == "!!str" && n.Value == unlimitedWord && l.unlimited {
		return 0
	}
	d, err := ParseDuration(n.Value)
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
		err = ErrBareNumber
	}
	remedy := "write a whole number and ms, s, m or h: " + l.String()
	if err != nil {
		rule, what := durationRule(err)
		p.fail(positionOf(n), l.field, rule, l.field+": "+shorten(n.Value)+" "+lead(rule, what), remedy)
		return 0
	}
	if ms := d.Milliseconds(); ms < l.minMS || ms > l.maxMS {
		p.fail(positionOf(n), l.field, RuleOutOfRange, l.field+": "+shorten(n.Value)+" is out of range", remedy)
		return 0
	}
	return d
}

// lead joins what is said of a value to the value.
func lead(rule RuleID, what string) string {
	if rule == RuleBareNumber {
		return "has no unit; " + what
	}
	return what
}

func (p *parser) maxWaiters(n *yaml.Node) int {
	const field, absent = "wait.max_waiters", 1000
	if n == nil {
		return absent
	}
	if !p.present(n, field, false) {
		return 0
	}
	count, plain := plainInteger(n.Value)
	switch {
	case n.ShortTag() != "!!int" && n.ShortTag() != "!!float":
		p.fail(positionOf(n), field, RuleWrongType, field+" is not a number: "+shorten(n.Value), "write a plain number")
	case !plain || count < 1 || count > maxWaitersMax:
		p.fail(positionOf(n), field, RuleOutOfRange, field+": "+shorten(n.Value)+" is out of range",
			"write a whole number from 1 to 100000 in plain digits")
	default:
		return int(count)
	}
	return 0
}

func (p *parser) date(n *yaml.Node) Date {
	if n == nil || !p.present(n, "review_by", false) {
		return ""
	}
	if tag := n.ShortTag(); (tag != "!!str" && tag != "!!timestamp") || !Date(n.Value).Valid() {
		p.fail(positionOf(n), "review_by", RuleBadDate, "review_by: "+shorten(n.Value)+" is not a day of the calendar",
			"write the day as YYYY-MM-DD")
		return ""
	}
	return Date(n.Value)
}
