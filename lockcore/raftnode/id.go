package raftnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
)

// ClusterID names one cluster for ever: a random UUID in its usual text form. A restore makes a new one.
type ClusterID string

// NodeID names a member of a cluster, as the operator wrote it: 1–63 lower-case letters, digits and hyphens, beginning
// with a letter or digit. A node whose disk was lost comes back under another id.
type NodeID string

// NodeUUID is drawn when a data directory is made, and tells two disks under the same NodeID apart.
type NodeUUID string

// GroupID names a Raft group of the cluster; the same syntax as NodeID.
type GroupID string

// Incarnation counts the lives of a cluster's data, from 1; a disaster restore begins the next one.
type Incarnation uint64

var (
	labelPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	uuidPattern  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// ErrBadID is returned for an identifier outside its syntax; the message says which.
var ErrBadID = errors.New("malformed identifier")

// NewClusterID draws a cluster id.
func NewClusterID() ClusterID { return ClusterID(newUUID()) }

// Validate returns ErrBadID unless c is a UUID in lower-case text form.
func (c ClusterID) Validate() error { return match("cluster id", string(c), uuidPattern) }

// Validate returns ErrBadID unless n follows the syntax of NodeID.
func (n NodeID) Validate() error { return match("node id", string(n), labelPattern) }

// Validate returns ErrBadID unless g follows the syntax of GroupID.
func (g GroupID) Validate() error { return match("group id", string(g), labelPattern) }

func match(what, value string, pattern *regexp.Regexp) error {
	if !pattern.MatchString(value) {
		return fmt.Errorf("%s %q: %w", what, value, ErrBadID)
	}
	return nil
}

// newUUID draws a version 4 UUID.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it stops the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
