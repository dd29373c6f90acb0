package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/tenants"
)

// devFile is DIR/dev.json: everything that a script needs of a development cluster.
type devFile struct {
	Nodes          []devFileNode  `json:"nodes"`
	Tenant         string         `json:"tenant"`
	APIKey         string         `json:"api_key"`
	AdminKey       string         `json:"admin_key"`
	OperatorAPIKey string         `json:"operator_api_key"`
	FloodAPIKey    string         `json:"flood_api_key,omitempty"` // of the second tenant, if there is one
	Classes        []devFileClass `json:"classes"`
	Data           string         `json:"data"`
}

type devFileNode struct {
	ID       string   `json:"id"`
	URL      string   `json:"url"`
	Metrics  string   `json:"metrics"`   // address of its metrics, on loopback
	PID      int      `json:"pid"`       // 0: not running
	LeaderOf []string `json:"leader_of"` // groups
}

type devFileClass struct {
	Class       string `json:"class"`
	Purpose     string `json:"purpose"`
	Enforcement string `json:"enforcement"`
	QuorumLoss  string `json:"quorum_loss"`
}

var devGroups = [1 + devPartitions]string{"control", "partition-1", "partition-2"}

const (
	devKeyLife   = 365 * 24 * time.Hour
	devFileEvery = 500 * time.Millisecond
	devAskTime   = time.Second
)

// setUp makes the tenant, its API keys and its classes, says so, and keeps dev.json true until ctx ends.
func (d *devCluster) setUp(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, devStartTime)
	defer cancel()
	file, err := d.seed(starting)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("set the development cluster up: %w", err)
	}
	if err := d.write(ctx, &file); err != nil {
		return err
	}
	d.greet(file)
	for pause(ctx, devFileEvery) {
		if err := d.write(ctx, &file); err != nil {
			return err
		}
	}
	return nil
}

func (d *devCluster) seed(ctx context.Context) (devFile, error) {
	nodes := d.admins()
	if err := awaitCluster(ctx, nodes); err != nil {
		return devFile{}, err
	}
	if err := d.putTenant(ctx, nodes, devTenant); err != nil {
		return devFile{}, err
	}
	file := d.remembered()
	file.Tenant, file.Data, file.Classes = devTenant, d.dir, nil
	for _, c := range d.classes {
		file.Classes = append(file.Classes, devFileClass{Class: string(c.file.Class), Purpose: string(c.file.Purpose),
			Enforcement: string(c.file.Enforcement), QuorumLoss: string(c.file.QuorumLoss)})
	}
	err := errors.Join(
		keepKey(ctx, nodes, devTenant, &file.APIKey, "sample service", "locks:*", "classes:declare:*", "guard:report"),
		keepKey(ctx, nodes, devTenant, &file.AdminKey, "sample administrator", "locks:*", "classes:declare:*", "audit:read",
			"guard:report", "tenant:admin"),
		d.awaitFirstOperator(ctx, nodes),
		keepKey(ctx, nodes, tenants.Platform, &file.OperatorAPIKey, "sample operator", "platform:operator"),
		d.putFlood(ctx, nodes, &file))
	if err != nil {
		return devFile{}, err
	}
	return file, d.awaitReady(ctx, nodes, file)
}

// awaitFirstOperator waits until the processes of a new cluster have made and printed the first operator's API key: they do
// so while there is none, and dev is about to make one.
func (d *devCluster) awaitFirstOperator(ctx context.Context, nodes adminClients) error {
	if !d.fresh || !d.options.processes {
		return nil
	}
	for {
		for _, a := range nodes {
			if o, err := a.operator(ctx); err == nil && o.Keys > 0 {
				return nil
			}
		}
		if !pause(ctx, again) {
			return fmt.Errorf("no node has made the first operator's API key: %w", ctx.Err())
		}
	}
}

// awaitCluster waits until the control log has begun and can be read.
func awaitCluster(ctx context.Context, nodes adminClients) error {
	for {
		for _, a := range nodes {
			if s, err := a.status(ctx, false); err == nil && s.Groups[0].Index > 0 && s.Groups[0].Leader == s.Node {
				return nil
			}
		}
		if !pause(ctx, again/4) {
			return fmt.Errorf("no node leads the control group: %w", ctx.Err())
		}
	}
}

// devQuotas leave a benchmark its room: nothing is to be kept from anybody here.
func devQuotas() tenants.Quotas {
	q := tenants.QuotasDefault()
	q.RequestsPerSecond = 1_000_000
	return q
}

// putTenant makes a tenant and puts its classes in force. All are on one partition, so that one can be in another's way.
func (d *devCluster) putTenant(ctx context.Context, nodes adminClients, tenant string) error {
	_, err := nodes.control(ctx, control.Entry{Tenants: tenants.PutTenant{Tenant: tenants.TenantID(tenant), OwnerGroups: ownerGroups(d.classes),
		Quotas: devQuotas(), Partition: 1, By: tenants.ByPlatform(), AtMS: time.Now().UnixMilli()}})
	if err != nil {
		return fmt.Errorf("make tenant %s: %w", tenant, err)
	}
	for _, c := range d.classes {
		if err := putInForce(ctx, nodes, tenant, c); err != nil {
			return err
		}
	}
	return nil
}

// putFlood makes the second tenant, if there is to be one. One that was made before stays, and is not spoken of.
func (d *devCluster) putFlood(ctx context.Context, nodes adminClients, f *devFile) error {
	if !d.options.flood {
		f.FloodAPIKey = ""
		return nil
	}
	return errors.Join(d.putTenant(ctx, nodes, devFlood), keepKey(ctx, nodes, devFlood, &f.FloodAPIKey, "sample flood", "locks:*"))
}

// remembered is what an earlier run in this folder wrote.
func (d *devCluster) remembered() devFile {
	var f devFile
	if raw, err := os.ReadFile(d.filePath()); err == nil && !d.fresh {
		_ = json.Unmarshal(raw, &f) // a damaged file costs new API keys
	}
	return f
}

func (d *devCluster) filePath() string { return filepath.Join(d.dir, "dev.json") }

// keepKey makes an API key unless the remembered one still works.
func keepKey(ctx context.Context, nodes adminClients, tenant tenants.TenantID, key *string, name string, scopes ...string) error {
	if *key != "" {
		works, err := nodes.works(ctx, tenant, *key)
		if err != nil || works {
			return err
		}
	}
	made, err := createKey(ctx, nodes, tenant, name, devKeyLife, scopes...)
	*key = made
	return err
}

// works waits until some node can tell whether an API key is the tenant's and works.
func (all adminClients) works(ctx context.Context, tenant tenants.TenantID, key string) (bool, error) {
	for {
		known := false
		for _, a := range all { // every one of them: a node begins to settle when it is first asked
			r, err := a.apiKey(ctx, key)
			if err == nil && r.Works && r.Tenant == string(tenant) {
				return true, nil
			}
			known = known || (err == nil && r.Known)
		}
		if known {
			return false, nil
		}
		if !pause(ctx, again/4) {
			return false, fmt.Errorf("no node can tell whether an API key works: %w", ctx.Err())
		}
	}
}

// awaitReady waits until every node knows the API keys, every class is in force and every group has a leader.
func (d *devCluster) awaitReady(ctx context.Context, nodes adminClients, f devFile) error {
	for !d.isReady(ctx, nodes, f) {
		if !pause(ctx, again/4) {
			return fmt.Errorf("not every class is in force, or not every group has a leader: %w", ctx.Err())
		}
	}
	return nil
}

func (d *devCluster) isReady(ctx context.Context, nodes adminClients, f devFile) bool {
	works := true
	for _, a := range nodes { // every one of them: a node begins to settle when it is first asked
		for _, key := range []string{f.APIKey, f.AdminKey, f.OperatorAPIKey, f.FloodAPIKey} {
			r, err := a.apiKey(ctx, key)
			works = works && (key == "" || err == nil && r.Works)
		}
	}
	if !works {
		return false
	}
	for _, a := range nodes {
		for _, c := range f.Classes {
			for _, tenant := range d.tenants() {
				if s, err := a.class(ctx, tenant, c.Class); err != nil || s.InForce == 0 || s.InForce != s.Signed {
					return false
				}
			}
		}
	}
	return len(d.leaders(ctx, nodes)) == len(devGroups)
}

func (d *devCluster) tenants() []string {
	if d.options.flood {
		return []string{devTenant, devFlood}
	}
	return []string{devTenant}
}

// leaders says which node leads each group and answers. A node that hangs leads nothing.
func (d *devCluster) leaders(ctx context.Context, nodes adminClients) map[string]string {
	leads := map[string]string{}
	for _, a := range nodes {
		asking, cancel := context.WithTimeout(ctx, devAskTime)
		s, err := a.status(asking, false)
		cancel()
		if err != nil {
			continue
		}
		for _, g := range s.Groups {
			if g.Leader == s.Node && (g.Ready || g.Group == "control") {
				leads[g.Group] = s.Node
			}
		}
	}
	return leads
}

// write brings dev.json up to date: processes and leaders change.
func (d *devCluster) write(ctx context.Context, f *devFile) error {
	leads := d.leaders(ctx, d.admins())
	now := make([]devFileNode, 0, devNodes)
	for i, m := range d.members {
		n := devFileNode{ID: string(m.ID), URL: m.URL, Metrics: "http://" + d.private[i] + "/metrics", PID: d.pids.get(i),
			LeaderOf: []string{}}
		for _, group := range devGroups {
			if leads[group] == n.ID {
				n.LeaderOf = append(n.LeaderOf, group)
			}
		}
		now = append(now, n)
	}
	if ctx.Err() != nil || reflect.DeepEqual(now, f.Nodes) {
		return nil
	}
	f.Nodes = now
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(replaceFile(d.filePath(), append(raw, '\n')), replaceFile(filepath.Join(d.dir, "env"), f.env()))
}

// replaceFile writes a file so that a reader sees the old one or the new one, whole.
func replaceFile(path string, data []byte) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func (f devFile) env() []byte {
	var urls, metrics []string
	for _, n := range f.Nodes {
		urls, metrics = append(urls, n.URL), append(metrics, n.Metrics)
	}
	env := fmt.Appendf(nil, "export STANCHION_ENDPOINTS=%s\nexport STANCHION_API_KEY=%s\nexport %s=%s\n",
		strings.Join(urls, ","), f.APIKey, envMetrics, strings.Join(metrics, ","))
	if f.FloodAPIKey != "" {
		env = fmt.Appendf(env, "export %s=%s\n", envFloodAPIKey, f.FloodAPIKey)
	}
	return env
}

// greet says what there is and what to do with it.
func (d *devCluster) greet(f devFile) {
	if d.options.classes != "" {
		fmt.Fprintf(d.out, "\n*** WARNING: the class files in %s are in force WITHOUT A REVIEW. ***\n*** Nobody who answers for these resources has read them. Never do this with data that matters. ***\n", d.options.classes)
	}
	fmt.Fprintf(d.out, "\nStanchion is ready: three nodes, tenant %s.\n\n", f.Tenant)
	for _, n := range f.Nodes {
		fmt.Fprintf(d.out, "  %s  %s  pid %d  leads %s\n", n.ID, n.URL, n.PID, orNothing(n.LeaderOf))
	}
	fmt.Fprintln(d.out, "\nClasses in force:")
	for _, c := range f.Classes {
		fmt.Fprintf(d.out, "  %-20s %s, %s, %s when the quorum is lost\n", c.Class, c.Purpose, c.Enforcement, c.QuorumLoss)
	}
	fmt.Fprintf(d.out, `
Next, in another terminal:
  . %s/env
  curl -X PUT $(echo $STANCHION_ENDPOINTS | cut -d, -f1)/v1/leases/$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n').1 \
    -H "Authorization: Bearer $STANCHION_API_KEY" -H 'Content-Type: application/json' \
    -d '{"class": "%s", "key": "first"}'

Everything a script needs is in %s. Stop with Ctrl-C.
`, d.dir, f.Classes[0].Class, d.filePath())
}

func orNothing(groups []string) string {
	if len(groups) == 0 {
		return "nothing"
	}
	return strings.Join(groups, ", ")
}
