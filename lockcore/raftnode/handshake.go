package raftnode

import (
	"errors"
	"fmt"
)

const (
	handshakeVersion  = 1
	handshakeBytesMax = 1024
)

// connKind says what a connection is for.
type connKind uint8

const (
	kindRaft    connKind = 1 // one group's Raft traffic
	kindConfirm connKind = 2 // confirm rounds of all groups
	kindAPI     connKind = 3 // HTTP between nodes
)

func (k connKind) String() string {
	switch k {
	case kindRaft:
		return "raft"
	case kindConfirm:
		return "confirm"
	case kindAPI:
		return "api"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Errors of connecting to another node.
var (
	// ErrRefused: the other node answered and did not want the connection; the message carries its reason.
	ErrRefused = errors.New("connection refused by the other node")
	// ErrUnknownNode: no address is known for the node.
	ErrUnknownNode = errors.New("no address known for node")
	// ErrMuxClosed: the port was closed by its owner.
	ErrMuxClosed = errors.New("node port is closed")
)

// MismatchError says that a peer is not who, or not where, it should be. Nothing was exchanged with it.
type MismatchError struct {
	Check     string // what was compared: cluster, group, source, …
	Want, Got string
}

// Error names the check with both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s is %q, expected %q", e.Check, e.Got, e.Want)
}

// hello is the dialler's first frame.
type hello struct {
	Version     uint16      `cbor:"1,keyasint"`
	Cluster     ClusterID   `cbor:"2,keyasint"`
	Kind        connKind    `cbor:"3,keyasint"`
	Group       GroupID     `cbor:"4,keyasint"` // of raft connections only
	Source      NodeID      `cbor:"5,keyasint"`
	Destination NodeID      `cbor:"6,keyasint"`
	Incarnation Incarnation `cbor:"7,keyasint"`
	SourceUUID  NodeUUID    `cbor:"8,keyasint"`
}

// welcome is the listener's answer; an empty Refusal accepts.
type welcome struct {
	Version     uint16      `cbor:"1,keyasint"`
	Cluster     ClusterID   `cbor:"2,keyasint"`
	Node        NodeID      `cbor:"3,keyasint"`
	Incarnation Incarnation `cbor:"4,keyasint"`
	NodeUUID    NodeUUID    `cbor:"5,keyasint"`
	Refusal     string      `cbor:"6,keyasint"`
}

func decodeHello(body []byte) (hello, error) {
	var h hello
	if err := decodeFrame(body, &h); err != nil {
		return hello{}, err
	}
	return h, h.validate()
}

// validate judges the form of a hello, not whether it came to the right place.
func (h hello) validate() error {
	if h.Version != handshakeVersion {
		return mismatch("protocol version", fmt.Sprint(handshakeVersion), fmt.Sprint(h.Version))
	}
	if err := errors.Join(h.Cluster.Validate(), h.Source.Validate(), h.Destination.Validate()); err != nil {
		return err
	}
	if err := match("node UUID", string(h.SourceUUID), uuidPattern); err != nil {
		return err
	}
	switch h.Kind {
	case kindRaft:
		return h.Group.Validate()
	case kindConfirm, kindAPI:
		if h.Group != "" {
			return mismatch("group", "", string(h.Group))
		}
		return nil
	}
	return mismatch("kind", "raft, confirm or api", h.Kind.String())
}

// check compares a well-formed hello with what the listener is and with what the dialler's certificate says.
func (h hello) check(own Identity, certified peerName) error {
	return firstMismatch(
		mismatchUnequal("cluster", string(own.Cluster), string(h.Cluster)),
		mismatchUnequal("destination", string(own.Node), string(h.Destination)),
		mismatchUnequal("incarnation", fmt.Sprint(own.Incarnation), fmt.Sprint(h.Incarnation)),
		mismatchUnequal("cluster in the certificate", string(h.Cluster), string(certified.cluster)),
		mismatchUnequal("source in the certificate", string(h.Source), string(certified.node)),
	)
}

// check compares the answer with whom the dialler wanted to reach.
func (w welcome) check(own Identity, destination NodeID) error {
	return firstMismatch(
		mismatchUnequal("protocol version", fmt.Sprint(handshakeVersion), fmt.Sprint(w.Version)),
		mismatchUnequal("cluster", string(own.Cluster), string(w.Cluster)),
		mismatchUnequal("node", string(destination), string(w.Node)),
		mismatchUnequal("incarnation", fmt.Sprint(own.Incarnation), fmt.Sprint(w.Incarnation)),
		match("node UUID", string(w.NodeUUID), uuidPattern),
	)
}

func mismatch(check, want, got string) error {
	return &MismatchError{Check: check, Want: want, Got: got}
}

func mismatchUnequal(check, want, got string) error {
	if want == got {
		return nil
	}
	return mismatch(check, want, got)
}

func firstMismatch(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
