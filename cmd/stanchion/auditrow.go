package main

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

var (
	errNoProof      = errors.New("it has no proof: was it exported with proofs?")
	errNoCheckpoint = errors.New("the export has no usable checkpoint of its log")
	errRowOrder     = errors.New("it is out of order, or there twice")
	errUnproven     = errors.New("it has no row number yet, as entries before it were missing at the node: export again once they are filled")
	errPosition     = errors.New("its position is none")
	errForm         = errors.New("its proof is not well formed")
)

// rowChecks holds an export's events, in their order, against its checkpoints.
type rowChecks struct {
	checkpoints map[string]wire.AuditCheckpoint // by log
	order       map[string]*rowOrder            // by log
}

// rowOrder watches that rows of a log come in one direction, so that none comes twice.
type rowOrder struct {
	last     uint64
	seen     int
	downward bool
}

func (o *rowOrder) follows(row uint64) bool {
	defer func() { o.last = row }()
	o.seen++
	switch o.seen {
	case 1:
		return true
	case 2:
		o.downward = row < o.last
	}
	return row != o.last && o.downward == (row < o.last)
}

func newRowChecks(all []wire.AuditCheckpoint) *rowChecks {
	c := &rowChecks{checkpoints: map[string]wire.AuditCheckpoint{}, order: map[string]*rowOrder{}}
	for _, at := range all {
		c.checkpoints[at.Log] = at
		c.order[at.Log] = new(rowOrder)
	}
	return c
}

func logOf(position string) string {
	log, _, _ := strings.Cut(position, "/")
	return log
}

// row checks one event: what it says has the hash that it claims, and its log has that hash at that row.
func (c *rowChecks) row(e wire.AuditEvent) error {
	if e.Proof == nil {
		return errNoProof
	}
	record, err := recordOf(e)
	if err != nil {
		return err
	}
	at, known := c.checkpoints[logOf(e.Position)]
	root, well := parseHash(at.Root)
	proof, wellProved := parseHashes(e.Proof.Inclusion)
	switch {
	case !known || !well:
		return errNoCheckpoint
	case !wellProved:
		return errForm
	case e.Row == nil:
		return errors.Join(record.Verify(), errUnproven)
	case !c.order[at.Log].follows(*e.Row):
		return errRowOrder
	}
	return audit.VerifyRow(record, proof, at.Rows, root)
}

// recordOf is an exported event as what its leaf is made of.
func recordOf(e wire.AuditEvent) (audit.Record, error) {
	at, ok := wire.ParseAuditPosition(e.Position)
	if !ok {
		return audit.Record{}, errPosition
	}
	leaf, hashed := parseHash(e.Proof.Leaf)
	text, texted := parseHash(e.Proof.Text)
	salt, err := hex.DecodeString(e.Proof.Salt)
	if !hashed || !texted || err != nil {
		return audit.Record{}, errForm
	}
	return audit.Record{Incarnation: e.Proof.Incarnation, Log: audit.Log(at.Log), Index: at.Index, Ordinal: at.Ordinal, Leaf: e.Row,
		Hash: leaf, Erased: e.Erased, Tenant: e.Tenant, Kind: e.Kind, AtMS: int64(e.At), Class: e.Class, Key: e.Key, Request: e.Request,
		Token: e.Token, Epoch: e.Epoch, Version: e.Version, Reason: e.Reason, APIKey: e.APIKey, Count: e.Count,
		Unprotected: e.Unprotected, Detail: e.Detail, Personal: text[:], Salt: salt, Holder: e.Holder, By: e.By, Note: e.Note}, nil
}

// parseHash reads a hash in its one spelling.
func parseHash(text string) (audit.Hash, bool) {
	var h audit.Hash
	if len(text) != 2*len(h) || strings.ToLower(text) != text {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err == nil
}

func parseHashes(all []string) ([]audit.Hash, bool) {
	hashes := make([]audit.Hash, len(all))
	for i, text := range all {
		h, ok := parseHash(text)
		if !ok {
			return nil, false
		}
		hashes[i] = h
	}
	return hashes, true
}

// isFileError reports whether a file could not be read at all.
func isFileError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
