package raftnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

const (
	identityFile   = "identity.json"
	groupFile      = "group.json"
	storeFile      = "raft.db"
	snapshotFolder = "snapshots" // made by the snapshot store inside the group's directory
	identityFormat = 1
)

// Errors of opening a data directory. Each message names the directory and the remedy.
var (
	// ErrNoIdentity: the directory holds no identity. A first start must say so (CreateDataDir); a member that lost
	// its disk must not come back under its old id, because it has forgotten its votes.
	ErrNoIdentity = errors.New("data directory has no identity")
	// ErrForeignData: the directory belongs to another cluster, node or group. Point the node at its own directory.
	ErrForeignData = errors.New("data directory belongs to somebody else")
	// ErrDataLost: the node is a known member of the group, but the group's data is gone. Replace the node: remove it,
	// and add it again under a new id.
	ErrDataLost = errors.New("data of a known member is missing")
	// ErrUnknownGroup: this node never held the group, and nobody asked for it to be created.
	ErrUnknownGroup = errors.New("group has never been on this node")
	// ErrIdentityExists: CreateDataDir found an identity. Open the directory instead.
	ErrIdentityExists = errors.New("data directory already has an identity")
)

// Identity says whose data a directory holds.
type Identity struct {
	Format      int         `json:"format"`
	Cluster     ClusterID   `json:"cluster"`
	Node        NodeID      `json:"node"`
	NodeUUID    NodeUUID    `json:"node_uuid"`
	Incarnation Incarnation `json:"incarnation"`
	// Groups lists, sorted, the groups of which this node has ever been a running member.
	Groups []GroupID `json:"groups"`
	// Peers are the disks of the other nodes, as first met: a node that comes back under its old id on another disk has
	// forgotten its votes, and is refused for as long as this directory lives.
	Peers map[NodeID]NodeUUID `json:"peers,omitempty"`
}

// groupIdentity is kept inside each group's own directory, so that two directories cannot be exchanged unnoticed.
type groupIdentity struct {
	Cluster     ClusterID   `json:"cluster"`
	NodeUUID    NodeUUID    `json:"node_uuid"`
	Incarnation Incarnation `json:"incarnation"`
	Group       GroupID     `json:"group"`
}

// DataDir is a node's data directory with a checked identity. Safe for concurrent use.
type DataDir struct {
	path string

	mu sync.Mutex
	id Identity // guarded by mu
}

// CreateDataDir makes an identity with a fresh node UUID in dir, creating the directory if need be. It is the explicit
// first start of a node: bootstrap, join or restore. Errors: ErrIdentityExists, ErrDataLost when dir holds group data
// without an identity, ErrBadID.
func CreateDataDir(dir string, cluster ClusterID, node NodeID, incarnation Incarnation) (*DataDir, error) {
	if err := errors.Join(cluster.Validate(), node.Validate()); err != nil {
		return nil, fmt.Errorf("create data directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	if err := refuseUsed(dir); err != nil {
		return nil, err
	}
	d := &DataDir{path: dir, id: Identity{
		Format: identityFormat, Cluster: cluster, Node: node,
		NodeUUID: NodeUUID(newUUID()), Incarnation: max(incarnation, 1), Groups: []GroupID{},
	}}
	if err := d.save(d.id); err != nil {
		return nil, err
	}
	return d, syncDir(filepath.Dir(filepath.Clean(dir)))
}

// refuseUsed returns an error when dir has an identity, or the data of groups.
func refuseUsed(dir string) error {
	switch _, err := os.Stat(filepath.Join(dir, identityFile)); {
	case err == nil:
		return fmt.Errorf("%s: %w: start the node without creating it", dir, ErrIdentityExists)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for an identity: %w", err)
	}
	groups, err := filepath.Glob(filepath.Join(dir, "*", groupFile))
	if err != nil {
		return fmt.Errorf("look for group data: %w", err)
	}
	if len(groups) > 0 {
		return fmt.Errorf("%s holds %s but no %s: %w: put the identity file back from this disk's own backup, or choose an empty directory and join under a new node id",
			dir, groups[0], identityFile, ErrDataLost)
	}
	return nil
}

// OpenDataDir reads the identity in dir and checks that it is the expected cluster's and node's, and that the directory
// and its groups' folders can be written. Errors: ErrNoIdentity, ErrForeignData, ErrCannotWrite.
func OpenDataDir(dir string, cluster ClusterID, node NodeID) (*DataDir, error) {
	id, err := readIdentity(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case id.Cluster != cluster:
		return nil, foreign(dir, "cluster", string(cluster), string(id.Cluster))
	case id.Node != node:
		return nil, foreign(dir, "node", string(node), string(id.Node))
	}
	d := &DataDir{path: dir, id: id}
	if err := d.checkRoom(); err != nil {
		return nil, err
	}
	return d, nil
}

// ReadIdentity returns the identity in dir without judging it, for tools that ask whose directory it is.
// Errors: ErrNoIdentity.
func ReadIdentity(dir string) (Identity, error) { return readIdentity(dir) }

func readIdentity(dir string) (Identity, error) {
	raw, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, fmt.Errorf("%s: %w: if this is the node's first start, bootstrap the cluster or join it; if its disk was lost or replaced, remove the node from the cluster and join under a new node id",
			dir, ErrNoIdentity)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read identity: %w", err)
	}
	var id Identity
	if err := decodeStrictJSON(raw, &id); err != nil {
		return Identity{}, fmt.Errorf("read identity %s: %w", filepath.Join(dir, identityFile), err)
	}
	if id.Format != identityFormat {
		return Identity{}, fmt.Errorf("read identity %s: format %d, this program reads format %d: start the release that wrote it", dir, id.Format, identityFormat)
	}
	return id, nil
}

func foreign(path, what, want, got string) error {
	return fmt.Errorf("%s: %w: %s is %q, expected %q: point the node at its own directory, or correct its configuration",
		path, ErrForeignData, what, got, want)
}

// Identity returns what the directory says about itself.
func (d *DataDir) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.id
	id.Groups = slices.Clone(id.Groups)
	return id
}

// Path returns the directory.
func (d *DataDir) Path() string { return d.path }

// openGroup returns the directory of the group, ready for its store. A group of which this node is a known member must
// be there with its data; an unknown one is made only when create is set. known tells which of the two it was.
func (d *DataDir) openGroup(group GroupID, create bool) (dir string, known bool, err error) {
	if err := group.Validate(); err != nil {
		return "", false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir = filepath.Join(d.path, string(group))
	switch {
	case slices.Contains(d.id.Groups, group):
		return dir, true, d.checkGroup(dir, group)
	case !create:
		return "", false, fmt.Errorf("group %s in %s: %w: bootstrap the group or let this node join it", group, d.path, ErrUnknownGroup)
	}
	return dir, false, d.makeGroup(dir, group)
}

// checkGroup refuses a member's directory that is gone, empty or another's.
func (d *DataDir) checkGroup(dir string, group GroupID) error {
	lost := func(what string) error {
		return fmt.Errorf("%s: %w: node %s is a member of group %s but %s: it has forgotten its votes and must not return as the same member; remove node %s from the cluster and join under a new node id with an empty data directory",
			dir, ErrDataLost, d.id.Node, group, what, d.id.Node)
	}
	raw, err := os.ReadFile(filepath.Join(dir, groupFile))
	if errors.Is(err, fs.ErrNotExist) {
		return lost("its directory has no " + groupFile)
	}
	if err != nil {
		return fmt.Errorf("read group identity: %w", err)
	}
	if err := d.matchGroup(dir, raw, group); err != nil {
		return err
	}
	switch info, err := os.Stat(filepath.Join(dir, storeFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return lost("its " + storeFile + " is gone")
	case err != nil:
		return fmt.Errorf("look for the store: %w", err)
	case info.Size() == 0:
		return lost("its " + storeFile + " is empty")
	}
	return nil
}

func (d *DataDir) matchGroup(dir string, raw []byte, group GroupID) error {
	var got groupIdentity
	if err := decodeStrictJSON(raw, &got); err != nil {
		return fmt.Errorf("read group identity %s: %w", filepath.Join(dir, groupFile), err)
	}
	want := d.groupIdentity(group)
	switch {
	case got.Cluster != want.Cluster:
		return foreign(dir, "cluster", string(want.Cluster), string(got.Cluster))
	case got.Group != want.Group:
		return foreign(dir, "group", string(want.Group), string(got.Group))
	case got.NodeUUID != want.NodeUUID:
		return foreign(dir, "node UUID", string(want.NodeUUID), string(got.NodeUUID))
	case got.Incarnation != want.Incarnation:
		return foreign(dir, "incarnation", fmt.Sprint(want.Incarnation), fmt.Sprint(got.Incarnation))
	}
	return nil
}

// makeGroup prepares the directory of a group that this node has not yet run; repeating it after a crash is harmless.
func (d *DataDir) makeGroup(dir string, group GroupID) error {
	if raw, err := os.ReadFile(filepath.Join(dir, groupFile)); err == nil {
		return d.matchGroup(dir, raw, group)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make group directory: %w", err)
	}
	if err := syncDir(d.path); err != nil {
		return err
	}
	return writeJSONDurably(filepath.Join(dir, groupFile), d.groupIdentity(group))
}

func (d *DataDir) groupIdentity(group GroupID) groupIdentity {
	return groupIdentity{Cluster: d.id.Cluster, NodeUUID: d.id.NodeUUID, Incarnation: d.id.Incarnation, Group: group}
}

// remember records, durably, that this node is about to run as a member of the group.
func (d *DataDir) remember(group GroupID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, found := slices.BinarySearch(d.id.Groups, group)
	if found {
		return nil
	}
	next := d.id
	next.Groups = slices.Insert(slices.Clone(d.id.Groups), at, group)
	if err := d.save(next); err != nil {
		return err
	}
	d.id = next
	return nil
}

// RememberPeer records, durably, the disk first met under another node's id. It does not replace one that is known; the
// caller compares. Safe for concurrent use.
func (d *DataDir) RememberPeer(node NodeID, disk NodeUUID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.id.Peers[node]; known {
		return nil
	}
	next := d.id
	next.Peers = maps.Clone(d.id.Peers)
	if next.Peers == nil {
		next.Peers = make(map[NodeID]NodeUUID)
	}
	next.Peers[node] = disk
	if err := d.save(next); err != nil {
		return fmt.Errorf("remember node %s: %w", node, err)
	}
	d.id = next
	return nil
}

func (d *DataDir) save(id Identity) error {
	return writeJSONDurably(filepath.Join(d.path, identityFile), id)
}

func writeJSONDurably(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writeFileDurably(path, append(raw, '\n'))
}

func decodeStrictJSON(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one document")
	}
	return nil
}
