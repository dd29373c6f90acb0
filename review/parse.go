package review

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Options is what Parse needs to know beyond the file. The zero value checks the file by itself, as an offline lint does.
type Options struct {
	// FailOpenDisabled says that the platform grants nothing while a quorum is lost, whatever a class declares.
	FailOpenDisabled bool
	// FixedPurpose is the purpose that earlier versions of this class name had; empty if no version was ever signed.
	FixedPurpose Purpose
	// OwnerGroups are the tenant's owner groups; nil leaves the owner unchecked.
	OwnerGroups []Group
	// Today is the day against which review_by is held; empty leaves it unchecked.
	Today Date
}

var (
	fileFields = []string{"format", "class", "description", "resource", "owner", "purpose", "enforcement", "quorum_loss",
		"guard", "lease", "heartbeat", "lock_delay", "max_hold", "review_by", "wait"}
	waitFields = []string{"mode", "max_wait", "max_waiters"}
)

// Parse reads a class file, YAML or JSON, and reports everything that is wrong with it, in the order of the file. The name
// file is used in findings alone. When Findings.Err is not nil the ClassFile is empty.
func Parse(file string, data []byte, opts Options) (ClassFile, Findings) {
	p := &parser{file: file, opts: opts, at: map[string]position{}, bad: map[string]bool{}}
	if root := p.document(data); root != nil {
		p.structure(root)
		p.read(root)
	}
	p.findings.Sort()
	if p.findings.Err() != nil {
		return ClassFile{}, p.findings
	}
	return p.result, p.findings
}

// parser reads one file. A field is "bad" once something was reported about it; nothing further is concluded from it.
type parser struct {
	file     string
	opts     Options
	result   ClassFile
	findings Findings
	at       map[string]position // where the value of each field stands that the file has
	bad      map[string]bool
}

func (p *parser) read(root *yaml.Node) {
	p.at[""] = positionOf(root)
	fields := p.mapping(root, "", fileFields)
	if fields == nil {
		return
	}
	f := &p.result
	f.Format = p.format(fields["format"])
	f.Class = p.name(fields["class"])
	f.Description = p.optionalText(fields["description"], descriptionText)
	f.Resource = p.text(fields["resource"], resourceText)
	f.Owner = p.owner(fields["owner"])
	f.Purpose = enum(p, fields["purpose"], "purpose", PurposeCorrectness, PurposeEfficiency)
	f.Enforcement = enum(p, fields["enforcement"], "enforcement", EnforcementFenced, EnforcementAdvisory)
	f.QuorumLoss = enum(p, fields["quorum_loss"], "quorum_loss", QuorumLossClosed, QuorumLossOpen)
	f.Guard = p.optionalText(fields["guard"], guardText)
	f.Lease = p.duration(fields["lease"], leaseLimits, 10*time.Second)
	f.Heartbeat = p.duration(fields["heartbeat"], heartbeatLimits, (f.Lease / 2).Truncate(time.Millisecond))
	f.LockDelay = p.duration(fields["lock_delay"], lockDelayLimits, 0)
	f.MaxHold = p.duration(fields["max_hold"], maxHoldLimits, 0)
	f.ReviewBy = p.date(fields["review_by"])
	p.wait(fields["wait"])
	p.conclude()
}

func (p *parser) wait(n *yaml.Node) {
	f := &p.result
	fields := map[string]*yaml.Node{}
	if n != nil {
		p.at["wait"] = positionOf(n)
		if fields = p.mapping(n, "wait", waitFields); fields == nil {
			return
		}
	}
	f.WaitMode = WaitQueue
	if fields["mode"] != nil {
		f.WaitMode = enum(p, fields["mode"], "wait.mode", WaitQueue, WaitRefuse)
	}
	if f.WaitMode != WaitRefuse {
		f.MaxWait = p.duration(fields["max_wait"], maxWaitLimits, 30*time.Second)
		f.MaxWaiters = p.maxWaiters(fields["max_waiters"])
		return
	}
	for _, name := range waitFields[1:] {
		if n := fields[name]; n != nil {
			p.errorAt(positionOf(n), RuleRefuseWithLimits, "wait."+name+" says nothing when the mode is refuse",
				"leave wait."+name+" out, or write mode: queue")
		}
	}
}

// mapping gives the value nodes of a mapping by field. It reports unknown and repeated fields, and returns nil when n is
// no mapping.
func (p *parser) mapping(n *yaml.Node, path string, known []string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.notMapping(n, path)
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch name := key.Value; {
		case mergeKey(key), key.Kind == yaml.AliasNode, tagged(key): // reported by structure
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, name):
			p.unknownField(key, path, known)
		case fields[name] != nil:
			p.errorAt(positionOf(key), RuleDuplicateField, join(path, name)+" is written twice", "keep one of the two")
		default:
			fields[name] = value
		}
	}
	return fields
}

func (p *parser) notMapping(n *yaml.Node, path string) {
	p.bad[path] = true
	if n.Kind == yaml.AliasNode || tagged(n) {
		return
	}
	if path == "" {
		p.errorAt(positionOf(n), RuleNotMapping, "the file is not a list of fields", "write fields, beginning with format: 1")
		return
	}
	p.errorAt(positionOf(n), RuleWrongType, path+" is not a list of fields", "write the fields of "+path+" below it, indented")
}

func (p *parser) unknownField(key *yaml.Node, path string, known []string) {
	if key.Kind != yaml.ScalarNode {
		p.errorAt(positionOf(key), RuleUnknownField, "a field's name is plain text", "known here: "+strings.Join(known, ", "))
		return
	}
	remedy := "known here: " + strings.Join(known, ", ")
	if guess := nearest(key.Value, known); guess != "" {
		remedy = "did you mean " + guess + "?"
	}
	p.errorAt(positionOf(key), RuleUnknownField, "no class file has the field "+shorten(join(path, key.Value)), remedy)
}

// conclude judges the fields against each other and against what the platform knows.
func (p *parser) conclude() {
	posture := p.result.Posture()
	for _, b := range contradictions(posture) {
		p.breach(SeverityError, b)
	}
	if !PurposeAllowed(p.opts.FixedPurpose, posture.Purpose) {
		message, remedy := purposeMessage(p.opts.FixedPurpose, posture.Purpose)
		p.breach(SeverityError, breach{RulePurposeChanged, []string{"purpose"}, message, remedy})
	}
	if p.opts.OwnerGroups != nil && !slices.Contains(p.opts.OwnerGroups, posture.Owner) {
		p.breach(SeverityError, breach{RuleUnknownOwner, []string{"owner"},
			"the group " + shorten(string(posture.Owner)) + " is not an owner group of this tenant",
			"name one of the tenant's owner groups, or have the platform's operator register this one"})
	}
	for _, b := range reservations(posture, p.opts) {
		p.breach(SeverityWarning, b)
	}
}

func (p *parser) breach(s Severity, b breach) {
	at, shown := p.at[""], false
	for _, field := range b.fields {
		if p.bad[field] {
			return
		}
		if place, has := p.at[field]; has && !shown {
			at, shown = place, true
		}
	}
	p.add(at, s, b.rule, b.message, b.remedy)
}

func (p *parser) errorAt(at position, rule RuleID, message, remedy string) {
	p.add(at, SeverityError, rule, message, remedy)
}

func (p *parser) add(at position, s Severity, rule RuleID, message, remedy string) {
	p.findings = append(p.findings, Finding{File: p.file, Line: at.line, Column: at.column, Rule: rule, Severity: s,
		Message: message, Remedy: remedy})
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// durationRule is the rule that an error of ParseDuration breaks, and what to say of it.
func durationRule(err error) (RuleID, string) {
	switch {
	case errors.Is(err, ErrBareNumber):
		return RuleBareNumber, "a bare number is not a duration"
	case errors.Is(err, ErrDurationOverflow):
		return RuleOutOfRange, "is out of range"
	}
	return RuleBadDuration, "is not a duration"
}

// plainInteger reads a decimal integer in its one written form; ok is false for any other.
func plainInteger(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && fmt.Sprint(n) == s
}
