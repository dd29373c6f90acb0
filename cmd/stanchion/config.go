package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// nodeConfig is the file of `stanchion serve`. Every node of a cluster has the same nodes and partitions.
type nodeConfig struct {
	Node       string       `yaml:"node"`       // this node's id, one of nodes
	Cluster    string       `yaml:"cluster"`    // UUID, the same on all nodes
	Data       string       `yaml:"data"`       // folder, one node's own
	Listen     string       `yaml:"listen"`     // host:port of the API
	Private    string       `yaml:"private"`    // host:port of metrics and pprof; empty: none
	AccessLog  string       `yaml:"access_log"` // file of this node's own requests; empty: access.log in data
	Audit      auditConfig  `yaml:"audit"`
	Partitions int          `yaml:"partitions"` // 1 .. 64; fixed at bootstrap
	Profile    string       `yaml:"profile"`    // production (default); dev and test: quick elections
	TLS        tlsConfig    `yaml:"tls"`        // between nodes
	Nodes      []memberFile `yaml:"nodes"`      // all voters, this node included

	path string `yaml:"-"`
}

// auditConfig says where the node's audit is.
type auditConfig struct {
	File     string `yaml:"file"`      // empty: audit.db in data
	BytesMax int64  `yaml:"bytes_max"` // of the file; 0: as much as the disk has
}

type tlsConfig struct {
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

type memberFile struct {
	ID   string `yaml:"id"`
	Peer string `yaml:"peer"` // host:port between nodes
	URL  string `yaml:"url"`  // where clients reach the node
}

const (
	partitionsDefault = 2
	partitionsMax     = 64
	configBytesMax    = 64 << 10
	auditBytesMin     = 1 << 20
)

// readConfig reads and checks a node's configuration. Paths in it are taken from the file's own folder. Unknown keys,
// keys given twice and missing ones are errors that name the line or the field.
func readConfig(path string) (nodeConfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nodeConfig{}, fmt.Errorf("read configuration: %w", err)
	}
	if len(raw) > configBytesMax {
		return nodeConfig{}, fmt.Errorf("read configuration %s: larger than %d bytes", path, configBytesMax)
	}
	var c nodeConfig
	if err := yaml.Load(raw, &c, yaml.WithV4Defaults(), yaml.WithKnownFields()); err != nil {
		return nodeConfig{}, fmt.Errorf("read configuration %s: %w", path, err)
	}
	c.path = path
	c.resolve(filepath.Dir(path))
	if err := c.override(os.LookupEnv); err != nil {
		return nodeConfig{}, err
	}
	if err := c.validate(); err != nil {
		return nodeConfig{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

func (c *nodeConfig) resolve(dir string) {
	for _, p := range []*string{&c.Data, &c.AccessLog, &c.Audit.File, &c.TLS.CA, &c.TLS.Cert, &c.TLS.Key} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	if c.AccessLog == "" {
		c.AccessLog = filepath.Join(c.Data, accessLogFile)
	}
	if c.Partitions == 0 {
		c.Partitions = partitionsDefault
	}
	if c.Profile == "" {
		c.Profile = "production"
	}
}

// override takes what the environment says over what the file says.
func (c *nodeConfig) override(lookup func(string) (string, bool)) error {
	for name, field := range map[string]*string{
		"STANCHION_NODE": &c.Node, "STANCHION_DATA": &c.Data, "STANCHION_LISTEN": &c.Listen,
		"STANCHION_PRIVATE": &c.Private,
	} {
		if v, ok := lookup(name); ok {
			if v == "" {
				return fmt.Errorf("environment: %s is set and empty; unset it, or give it a value", name)
			}
			*field = v
		}
	}
	return nil
}

func (c *nodeConfig) validate() error {
	errs := []error{
		needed("node", c.Node), needed("cluster", c.Cluster), needed("data", c.Data), address("listen", c.Listen),
		needed("tls.ca", c.TLS.CA), needed("tls.cert", c.TLS.Cert), needed("tls.key", c.TLS.Key),
	}
	if c.Private != "" {
		errs = append(errs, address("private", c.Private))
	}
	if c.Audit.BytesMax != 0 && c.Audit.BytesMax < auditBytesMin {
		errs = append(errs, fmt.Errorf("audit.bytes_max: %d is neither 0 nor at least %d", c.Audit.BytesMax, auditBytesMin))
	}
	if c.Partitions < 1 || c.Partitions > partitionsMax {
		errs = append(errs, fmt.Errorf("partitions: %d is not 1 to %d", c.Partitions, partitionsMax))
	}
	if _, err := profile(c.Profile); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.validateNodes())...)
}

func (c *nodeConfig) validateNodes() error {
	if !slices.ContainsFunc(c.Nodes, func(m memberFile) bool { return m.ID == c.Node }) {
		return fmt.Errorf("nodes: there is no %q among them; list every voter, this node included", c.Node)
	}
	var errs []error
	seen := map[string]bool{}
	for i, m := range c.Nodes {
		at := fmt.Sprintf("nodes[%d]", i)
		if seen[m.ID] {
			errs = append(errs, fmt.Errorf("%s: id %q is there twice", at, m.ID))
		}
		seen[m.ID] = true
		errs = append(errs, raftnode.NodeID(m.ID).Validate(), address(at+".peer", m.Peer), publicURL(at+".url", m.URL))
	}
	return errors.Join(errs...)
}

// onLoopback reports whether the node and all its peers are on this machine's loopback.
func (c *nodeConfig) onLoopback() bool {
	addresses := []string{c.Listen}
	for _, m := range c.Nodes {
		addresses = append(addresses, m.Peer)
	}
	return !slices.ContainsFunc(addresses, func(a string) bool {
		host, _, _ := net.SplitHostPort(a)
		return host != "localhost" && !net.ParseIP(host).IsLoopback()
	})
}

func needed(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s: missing", field)
	}
	return nil
}

func address(field, value string) error {
	if _, port, err := net.SplitHostPort(value); err != nil || port == "" {
		return fmt.Errorf("%s: %q is not host:port", field, value)
	}
	return nil
}

func publicURL(field, value string) error {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || (u.Path != "" && u.Path != "/") {
		return fmt.Errorf("%s: %q is not like https://locks.example.com", field, value)
	}
	return nil
}

func profile(name string) (raftnode.Profile, error) {
	switch name {
	case "production":
		return raftnode.ProductionProfile(), nil
	case "test":
		return raftnode.TestProfile(), nil
	case "dev":
		return devProfile(), nil
	}
	return raftnode.Profile{}, fmt.Errorf("profile: %q is none of production, dev, test", name)
}
