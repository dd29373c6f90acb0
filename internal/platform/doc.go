// Package platform is one node of Stanchion: the control group and the partitions, each on its Raft group, over one port
// between nodes. It puts what the control log decides into the partitions that this node leads, and is what the lease API
// talks to. It wires packages that do not know each other; it must not decide about locks, tenants or postures itself,
// and knows no HTTP route.
package platform
