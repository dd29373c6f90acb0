package platform

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Metrics of a node. Labels are groups and logs, of which a cluster has a fixed, small number.
var (
	groupLeads = prometheus.NewDesc("stanchion_group_leads",
		"1 while this node leads the Raft group.", []string{"group"}, nil)
	groupHasLeader = prometheus.NewDesc("stanchion_group_has_leader",
		"1 while this node knows a leader of the Raft group.", []string{"group"}, nil)
	groupLag = prometheus.NewDesc("stanchion_group_apply_lag_entries",
		"Committed entries that this node has not applied yet.", []string{"group"}, nil)
	groupLogBytes = prometheus.NewDesc("stanchion_group_log_bytes",
		"What the group's log takes on this node's disk, estimated.", []string{"group"}, nil)
	auditWaiting = prometheus.NewDesc("stanchion_audit_waiting_entries",
		"Entries that wait for the audit to store them.", nil, nil)
	auditFull = prometheus.NewDesc("stanchion_audit_full",
		"1 while rows are left out because the audit does not take them; correctness classes then grant nothing anew.", nil, nil)
	auditWell = prometheus.NewDesc("stanchion_audit_well",
		"1 while nothing is wrong with this node's audit; readiness says what is.", nil, nil)
	auditDurable = prometheus.NewDesc("stanchion_audit_durable_entry",
		"The log entry up to which this node's audit is stored.", []string{"log"}, nil)
)

// Collector tells a node's metrics. One registry takes one node.
func (p *Platform) Collector() prometheus.Collector { return collector{p} }

type collector struct{ p *Platform }

// Describe names every metric.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{groupLeads, groupHasLeader, groupLag, groupLogBytes, auditWaiting, auditFull, auditWell, auditDurable} {
		to <- d
	}
}

// Collect reads them. It waits for no disk.
func (c collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, g := range c.p.groups() {
		s, name := g.Status(), string(g.ID())
		gauge(groupLeads, truth(s.State == raftnode.Leader), name)
		gauge(groupHasLeader, truth(s.Leader != ""), name)
		gauge(groupLag, float64(s.CommitIndex-min(s.CommitIndex, s.AppliedIndex)), name)
		gauge(groupLogBytes, float64(g.LogBytes()), name)
	}
	waiting, _, full := c.p.audit.projector.Pending()
	gauge(auditWaiting, float64(waiting))
	gauge(auditFull, truth(full))
	gauge(auditWell, truth(c.p.audit.part().Why == ""))
	for _, log := range nodeAudit(c).Logs(tenants.Platform) {
		gauge(auditDurable, float64(c.p.audit.projector.Durable(log)), c.p.audit.name(log))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
