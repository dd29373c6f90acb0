package lockcoretest

import (
	"encoding/hex"
	"fmt"

	"github.com/stanchion-locks/stanchion/lockcore"
)

// What a line need not say.
const (
	usualOwner = "alice"
	usualQuota = 100
	usualEnds  = 10_000
)

var usualClass = lockcore.Class{
	Version: 1, Digest: "digest", Purpose: lockcore.PurposeEfficiency, Enforcement: lockcore.EnforcementAdvisory,
	QuorumLoss: lockcore.QuorumLossClosed, LeaseMS: 10_000, HeartbeatMS: 500, MaxWaiters: 10,
}

var (
	purposes     = []string{"unknown", "correctness", "efficiency"}
	enforcements = []string{"unknown", "fenced", "advisory"}
	quorumLosses = []string{"unknown", "closed", "open"}
)

// FormatCommand writes a command as one line, which ParseCommand reads back as the same command.
func FormatCommand(c lockcore.Command) string {
	switch c := c.(type) {
	case lockcore.AdvanceEpoch:
		return say("advance-epoch", c.Node).String()
	case lockcore.PutTenant:
		q := c.Quotas
		return say("put-tenant", string(c.Tenant)).number("base", uint64(c.TokenBase), 0).
			integer("keys", q.Keys, usualQuota).integer("leases", q.Leases, usualQuota).
			integer("waiters", q.Waiters, usualQuota).integer("sessions", q.Sessions, usualQuota).
			integer("per-session", q.PerSession, usualQuota).integer("ends", q.Ends, usualEnds).
			number("revision", c.Revision, 0).flag("suspended", c.Suspended).String()
	case lockcore.DropTenant:
		return say("drop-tenant", string(c.Tenant)).text("by", c.By, "").number("revision", c.Revision, 0).String()
	case lockcore.PutClass:
		return formatClass(c)
	case lockcore.RetireClass:
		return say("retire-class", string(c.Tenant), string(c.Class)).text("by", c.By, "").
			number("version", c.Version, usualClass.Version).String()
	case lockcore.LeaseClock:
		return "lease-clock"
	case lockcore.Checkpoint:
		return say("checkpoint").number("index", c.Index, 0).text("hash", hex.EncodeToString(c.Hash[:]), "").String()
	case lockcore.RaiseLevel:
		return say("raise-level").number("level", uint64(c.Level), 0).String()
	}
	return formatLeaseCommand(c)
}

func formatLeaseCommand(c lockcore.Command) string {
	switch c := c.(type) {
	case lockcore.Acquire:
		return say("acquire", string(c.Tenant), leaseName(c.Lease), string(c.Class), string(c.Key)).
			span("wait", c.WaitMS, 0).text("owner", string(c.Owner), usualOwner).text("holder", c.Holder, "").
			text("api-key", c.APIKey, "").String()
	case lockcore.Release:
		return say("release", string(c.Tenant), leaseName(c.Lease)).number("token", uint64(c.Token), 0).
			text("owner", string(c.Owner), usualOwner).String()
	case lockcore.Expire:
		return say("expire", string(c.Tenant), leaseName(c.Lease)).number("token", uint64(c.Token), 0).
			flag("missed", c.Missed).String()
	case lockcore.EndDelay:
		return say("end-delay", string(c.Tenant), string(c.Class), string(c.Key)).
			number("token", uint64(c.Token), 0).String()
	case lockcore.Leave:
		return say("leave", string(c.Tenant), leaseName(c.Lease), c.Cause.String()).String()
	case lockcore.WaiterGone:
		l := say("waiter-gone", string(c.Tenant))
		for _, id := range c.Leases {
			l.b.WriteString(" " + leaseName(id))
		}
		return l.String()
	case lockcore.MarkEnding:
		return say("mark-ending", string(c.Tenant), leaseName(c.Lease), c.Cause.String()).
			number("token", uint64(c.Token), 0).text("by", c.By, "").text("note", c.Note, "").
			flag("now", c.Now).String()
	case lockcore.EndSession:
		return say("end-session", string(c.Tenant), sessionName(c.Session)).
			text("owner", string(c.Owner), usualOwner).String()
	case lockcore.ForgetSession:
		return say("forget-session", string(c.Tenant), sessionName(c.Session)).String()
	case lockcore.Extend:
		return say("extend", string(c.Tenant), leaseName(c.Lease)).number("token", uint64(c.Token), 0).String()
	case lockcore.ReportGuard:
		return formatReport(c)
	}
	return fmt.Sprintf("# %T has no line", c)
}

func formatReport(c lockcore.ReportGuard) string {
	l := say("report-guard", string(c.Tenant), string(c.Class), string(c.Key), reporterName(c.Reporter)).
		number("sequence", c.Sequence, 1).number("checks", c.Checks, 0).text("api-key", c.APIKey, "")
	for _, r := range c.Rejections {
		fmt.Fprintf(&l.b, " %d<%d*%d@%d", r.Token, r.Highest, r.Count, r.AtMS)
	}
	return l.String()
}

func formatClass(p lockcore.PutClass) string {
	c, usual := p.Class, usualClass
	return say("put-class", string(p.Tenant), string(c.Name)).number("version", c.Version, usual.Version).
		text("digest", c.Digest, usual.Digest).text("purpose", c.Purpose.String(), usual.Purpose.String()).
		text("enforcement", c.Enforcement.String(), usual.Enforcement.String()).
		text("quorum-loss", c.QuorumLoss.String(), usual.QuorumLoss.String()).
		span("lease", c.LeaseMS, usual.LeaseMS).span("heartbeat", c.HeartbeatMS, usual.HeartbeatMS).
		span("lock-delay", c.LockDelayMS, 0).span("max-hold", c.MaxHoldMS, 0).span("max-wait", c.MaxWaitMS, 0).
		integer("max-waiters", c.MaxWaiters, usual.MaxWaiters).flag("refuses", c.Refuses).
		flag("retired", c.Retired).String()
}

// ParseCommand reads one line. Errors wrap ErrSyntax.
func ParseCommand(s string) (lockcore.Command, error) {
	w, err := split(s)
	if err != nil {
		return nil, err
	}
	c := w.command()
	if c == nil {
		w.fail("unknown verb")
	}
	if err := w.end(); err != nil {
		return nil, fmt.Errorf("line %q: %w", s, err)
	}
	return c, nil
}

func (w *words) command() lockcore.Command {
	switch verb := w.next(); verb {
	case "advance-epoch":
		return lockcore.AdvanceEpoch{Node: w.next()}
	case "put-tenant":
		return w.putTenant()
	case "drop-tenant":
		return lockcore.DropTenant{Tenant: w.tenant(), By: w.take("by", ""), Revision: w.number("revision", 0)}
	case "put-class":
		return w.putClass()
	case "retire-class":
		return lockcore.RetireClass{Tenant: w.tenant(), Class: w.class(), By: w.take("by", ""),
			Version: w.number("version", usualClass.Version)}
	case "lease-clock":
		return lockcore.LeaseClock{}
	case "checkpoint":
		return lockcore.Checkpoint{Index: w.number("index", 0), Hash: w.hash("hash")}
	case "raise-level":
		return lockcore.RaiseLevel{Level: uint16(w.number("level", 0))}
	default:
		return w.leaseCommand(verb)
	}
}

func (w *words) leaseCommand(verb string) lockcore.Command {
	switch verb {
	case "acquire":
		return lockcore.Acquire{Tenant: w.tenant(), Lease: w.lease(), Class: w.class(), Key: w.key(),
			WaitMS: w.span("wait", 0), Owner: w.owner(), Holder: w.take("holder", ""), APIKey: w.take("api-key", "")}
	case "release":
		return lockcore.Release{Tenant: w.tenant(), Lease: w.lease(), Token: w.token(), Owner: w.owner()}
	case "expire":
		return lockcore.Expire{Missed: w.flag("missed"), Tenant: w.tenant(), Lease: w.lease(), Token: w.token()}
	case "end-delay":
		return lockcore.EndDelay{Tenant: w.tenant(), Class: w.class(), Key: w.key(), Token: w.token()}
	case "leave":
		return lockcore.Leave{Tenant: w.tenant(), Lease: w.lease(), Cause: w.reason()}
	case "waiter-gone":
		c := lockcore.WaiterGone{Tenant: w.tenant()}
		for len(w.bare) > 0 {
			c.Leases = append(c.Leases, w.lease())
		}
		return c
	case "mark-ending":
		return lockcore.MarkEnding{Now: w.flag("now"), Tenant: w.tenant(), Lease: w.lease(), Cause: w.reason(),
			Token: w.token(), By: w.take("by", ""), Note: w.take("note", "")}
	case "end-session":
		return lockcore.EndSession{Tenant: w.tenant(), Session: w.session(), Owner: w.owner()}
	case "forget-session":
		return lockcore.ForgetSession{Tenant: w.tenant(), Session: w.session()}
	case "extend":
		return lockcore.Extend{Tenant: w.tenant(), Lease: w.lease(), Token: w.token()}
	case "report-guard":
		return w.report()
	}
	return nil
}

func (w *words) report() lockcore.Command {
	c := lockcore.ReportGuard{Tenant: w.tenant(), Class: w.class(), Key: w.key(), Reporter: w.reporter(),
		Sequence: w.number("sequence", 1), Checks: w.number("checks", 0), APIKey: w.take("api-key", "")}
	for len(w.bare) > 0 {
		c.Rejections = append(c.Rejections, w.rejection())
	}
	return c
}

// rejection reads <token>"<"<highest>"*"<count>"@"<milliseconds>.
func (w *words) rejection() (r lockcore.Rejection) {
	s := w.next()
	_, err := fmt.Sscanf(s, "%d<%d*%d@%d", &r.Token, &r.Highest, &r.Count, &r.AtMS)
	w.check(err)
	if again := fmt.Sprintf("%d<%d*%d@%d", r.Token, r.Highest, r.Count, r.AtMS); err == nil && again != s {
		w.fail("a rejection is token<highest*count@milliseconds")
	}
	return r
}

func (w *words) putTenant() lockcore.Command {
	c := lockcore.PutTenant{Suspended: w.flag("suspended"), Tenant: w.tenant(), TokenBase: lockcore.Token(w.number("base", 0)),
		Revision: w.number("revision", 0)}
	c.Quotas = lockcore.Quotas{Keys: w.integer("keys", usualQuota), Leases: w.integer("leases", usualQuota),
		Waiters: w.integer("waiters", usualQuota), Sessions: w.integer("sessions", usualQuota),
		PerSession: w.integer("per-session", usualQuota), Ends: w.integer("ends", usualEnds)}
	return c
}

func (w *words) putClass() lockcore.Command {
	u := usualClass
	c := lockcore.Class{Refuses: w.flag("refuses"), Retired: w.flag("retired")}
	tenant := w.tenant()
	c.Name, c.Version, c.Digest = w.class(), w.number("version", u.Version), w.take("digest", u.Digest)
	c.Purpose = lockcore.Purpose(w.oneOf("purpose", purposes, u.Purpose.String()))
	c.Enforcement = lockcore.Enforcement(w.oneOf("enforcement", enforcements, u.Enforcement.String()))
	c.QuorumLoss = lockcore.QuorumLoss(w.oneOf("quorum-loss", quorumLosses, u.QuorumLoss.String()))
	c.LeaseMS, c.HeartbeatMS = w.span("lease", u.LeaseMS), w.span("heartbeat", u.HeartbeatMS)
	c.LockDelayMS, c.MaxHoldMS = w.span("lock-delay", 0), w.span("max-hold", 0)
	c.MaxWaitMS, c.MaxWaiters = w.span("max-wait", 0), w.integer("max-waiters", u.MaxWaiters)
	return lockcore.PutClass{Tenant: tenant, Class: c}
}

func (w *words) tenant() lockcore.TenantID { return lockcore.TenantID(w.next()) }
func (w *words) class() lockcore.ClassName { return lockcore.ClassName(w.next()) }
func (w *words) key() lockcore.Key         { return lockcore.Key(w.next()) }
func (w *words) token() lockcore.Token     { return lockcore.Token(w.number("token", 0)) }
func (w *words) owner() lockcore.OwnerID   { return lockcore.OwnerID(w.take("owner", usualOwner)) }

func (w *words) oneOf(label string, values []string, usual string) int {
	v := w.take(label, usual)
	for i, known := range values {
		if v == known {
			return i
		}
	}
	w.fail("unknown " + label)
	return 0
}

func (w *words) reason() lockcore.Reason {
	v := w.next()
	for _, r := range lockcore.Reasons() {
		if r.String() == v {
			return r
		}
	}
	w.fail("unknown reason " + v)
	return 0
}
