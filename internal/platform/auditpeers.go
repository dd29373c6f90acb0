package platform

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
)

// auditStanding is how a node's audit stands, as it tells the others.
type auditStanding struct {
	Positions []audit.Position `json:"positions"`
	Gaps      []audit.Gap      `json:"gaps"` // the first of them
}

const (
	gapsToldMax = 1000
	// fillEntriesMax bounds the entries that one question fills.
	fillEntriesMax = 2000
	askTime        = 10 * time.Second
)

func (s auditStanding) position(log audit.Log) audit.Position {
	for _, p := range s.Positions {
		if p.Log == log {
			return p
		}
	}
	return audit.Position{Log: log}
}

// compareAudits learns how the other nodes' audits stand, which is what lets logs be truncated, fills what this node has
// missed, and compares what both have.
func (p *Platform) compareAudits(ctx context.Context) error {
	ticker := time.NewTicker(2 * p.config.Profile.HeartbeatTimeout)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := p.compareOnce(ctx); err != nil && ctx.Err() == nil {
			p.log.Debug("audits not compared", "error", err)
		}
	}
}

// compareOnce does one round. A node that does not answer is left for the next.
func (p *Platform) compareOnce(ctx context.Context) error {
	own, err := p.audit.standing(ctx)
	if err != nil {
		return err
	}
	errs := []error{p.audit.store.Number(ctx)} // what the last round had no time for
	reached := map[raftnode.NodeID]auditStanding{}
	for _, peer := range p.others() {
		asking, cancel := context.WithTimeout(ctx, askTime)
		var s auditStanding
		err := p.ask(asking, peer, http.MethodGet, "/internal/audit/standing", nil, &s)
		if err == nil {
			p.audit.told(peer, s)
			reached[peer] = s
			err = errors.Join(p.fillFrom(asking, own, peer, s), p.compareRoots(asking, own, peer, s))
		}
		cancel()
		errs = append(errs, err)
	}
	p.audit.settle(len(p.config.Peers))
	if len(reached) == len(p.others()) {
		errs = append(errs, p.audit.giveUp(ctx, own, reached))
	}
	return errors.Join(errs...)
}

// others are the cluster's other voters.
func (p *Platform) others() []raftnode.NodeID {
	var all []raftnode.NodeID
	for _, peer := range p.config.Peers {
		if peer.ID != p.config.Node {
			all = append(all, peer.ID)
		}
	}
	return all
}

func (a *auditor) standing(ctx context.Context) (auditStanding, error) {
	positions, err := a.store.Positions(ctx)
	if err != nil {
		return auditStanding{}, err
	}
	gaps, err := a.store.Gaps(ctx)
	if len(gaps) > gapsToldMax {
		gaps = gaps[:gapsToldMax]
	}
	return auditStanding{Positions: positions, Gaps: gaps}, err
}

func (a *auditor) told(peer raftnode.NodeID, s auditStanding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers[peer] = s
}

// fillFrom asks a node for the rows of this node's gaps, as far as it has them. A gap that cannot be filled does not keep
// the others.
func (p *Platform) fillFrom(ctx context.Context, own auditStanding, peer raftnode.NodeID, theirs auditStanding) error {
	var errs []error
	for _, gap := range own.Gaps {
		if gap.Unrecoverable {
			continue
		}
		for _, part := range heldOf(gap, theirs) {
			if err := p.fillPart(ctx, part, peer); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// fillPart fills a part of a gap that a node has.
func (p *Platform) fillPart(ctx context.Context, part audit.Gap, peer raftnode.NodeID) error {
	for from := part.From; from <= part.To; {
		rows, err := p.askRows(ctx, peer, part.Log, from, part.To)
		if err != nil {
			return err
		}
		err = p.audit.store.Fill(ctx, rows)
		p.audit.alarm("rows of "+p.audit.name(part.Log)+" from "+string(peer), untrue(err))
		if err != nil {
			return fmt.Errorf("fill the audit of %s from %s: %w", p.audit.name(part.Log), peer, err)
		}
		p.log.Info("missing audit rows filled", "log", p.audit.name(part.Log), "from", from, "to", rows.Through, "node", string(peer))
		from = rows.Through + 1
	}
	return nil
}

// untrue is an error that says that one of two nodes has not what its log said; others pass by themselves.
func untrue(err error) error {
	if errors.Is(err, audit.ErrWrongHash) || errors.Is(err, audit.ErrContentDiffers) {
		return err
	}
	return nil
}

// heldOf are the parts of a gap that a node has: what it is past, without its own gaps, those given up included.
func heldOf(gap audit.Gap, theirs auditStanding) (parts []audit.Gap) {
	from, end := gap.From, min(gap.To, theirs.position(gap.Log).Durable)
	add := func(to uint64) {
		if from <= to {
			part := gap
			part.From, part.To = from, to
			parts = append(parts, part)
		}
	}
	for _, g := range theirs.Gaps { // in order of position
		if g.Log == gap.Log && g.From <= end && g.To >= from {
			add(g.From - 1)
			from = g.To + 1
		}
	}
	add(end)
	return parts
}

// rowsBytesMax bounds an answer with rows. A single entry is never cut, and the end of a session that holds as much as it
// may leads to some tens of thousands of rows.
const rowsBytesMax = 256 << 20

func (p *Platform) askRows(ctx context.Context, peer raftnode.NodeID, log audit.Log, from, to uint64) (audit.PeerRows, error) {
	q := url.Values{"log": {number(uint64(log))}, "from": {number(from)}, "to": {number(to)}}
	rows, err := p.readRows(ctx, peer, "/internal/audit/rows?"+q.Encode())
	switch {
	case err != nil:
		return rows, fmt.Errorf("ask %s for audit rows %d to %d of %s: %w", peer, from, to, p.audit.name(log), err)
	case rows.Log != log || rows.From != from || rows.Through < from || rows.Through > to:
		return rows, fmt.Errorf("%s answered rows %d to %d of log %d, asked for %d to %d of log %d", peer, rows.From, rows.Through,
			rows.Log, from, to, log)
	}
	return rows, nil
}

// readRows is ask for an answer that may be longer than the others.
func (p *Platform) readRows(ctx context.Context, peer raftnode.NodeID, path string) (rows audit.PeerRows, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(peer)+path, nil)
	if err != nil {
		return rows, err
	}
	res, err := p.forward.RoundTrip(r)
	if err != nil {
		return rows, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, internalBytesMax))
		return rows, fmt.Errorf("status %d: %.200s", res.StatusCode, why)
	}
	return rows, json.NewDecoder(io.LimitReader(res.Body, rowsBytesMax)).Decode(&rows)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// compareRoots holds what both nodes have stored against each other: at equal lengths the hashes are equal, or one of the
// files is not what the log said.
func (p *Platform) compareRoots(ctx context.Context, own auditStanding, peer raftnode.NodeID, theirs auditStanding) error {
	for _, mine := range own.Positions {
		rows := min(mine.Rows, theirs.position(mine.Log).Rows)
		if rows == 0 {
			continue
		}
		q := url.Values{"log": {number(uint64(mine.Log))}, "rows": {number(rows)}}
		var there rootReply
		if err := p.ask(ctx, peer, http.MethodGet, "/internal/audit/root?"+q.Encode(), nil, &there); err != nil {
			return err
		}
		here, err := p.audit.store.RootAt(ctx, mine.Log, rows)
		if err != nil {
			return err
		}
		var differs error
		if got := hex.EncodeToString(here[:]); got != there.Root {
			differs = fmt.Errorf("the first %d rows of %s are not those of %s: root %.16s here, %.16s there", rows,
				p.audit.name(mine.Log), peer, got, there.Root)
		}
		p.audit.alarm("rows of "+p.audit.name(mine.Log)+" against "+string(peer), differs)
	}
	return nil
}

// rootReply is the root of a log's first rows.
type rootReply struct {
	Root string `json:"root"` // hexadecimal
}

// giveUp marks as lost for ever what every node of the cluster misses.
func (a *auditor) giveUp(ctx context.Context, own auditStanding, others map[raftnode.NodeID]auditStanding) error {
	for _, gap := range own.Gaps {
		if gap.Unrecoverable {
			continue
		}
		for _, lost := range missedByAll(gap, others) {
			if err := a.store.GiveUp(ctx, lost); err != nil {
				return err
			}
			a.log.Error("audit rows are lost: no node has them", "log", a.name(lost.Log), "from", lost.From, "to", lost.To)
		}
	}
	return nil
}

// missedByAll are the parts of a gap that lie in gaps of all others.
func missedByAll(gap audit.Gap, others map[raftnode.NodeID]auditStanding) []audit.Gap {
	parts := []audit.Gap{gap}
	for _, s := range others {
		var both []audit.Gap
		for _, part := range parts {
			for _, g := range s.Gaps {
				from, to := max(part.From, g.From), min(part.To, g.To)
				if g.Log == part.Log && from <= to {
					common := part
					common.From, common.To = from, to
					both = append(both, common)
				}
			}
		}
		parts = both
	}
	slices.SortFunc(parts, func(a, b audit.Gap) int { return int(int64(a.From) - int64(b.From)) })
	return parts
}

// answerAudit registers what other nodes ask about the audit.
func (p *Platform) answerAudit(mux *http.ServeMux) {
	mux.HandleFunc("GET /internal/audit/standing", func(w http.ResponseWriter, r *http.Request) {
		s, err := p.audit.standing(r.Context())
		answerOr(w, s, err)
	})
	mux.HandleFunc("GET /internal/audit/root", func(w http.ResponseWriter, r *http.Request) {
		log, rows := param(r, "log"), param(r, "rows")
		root, err := p.audit.store.RootAt(r.Context(), audit.Log(log), rows)
		answerOr(w, rootReply{Root: hex.EncodeToString(root[:])}, err)
	})
	mux.HandleFunc("GET /internal/audit/rows", func(w http.ResponseWriter, r *http.Request) {
		rows, err := p.audit.store.Peer(r.Context(), audit.Log(param(r, "log")), param(r, "from"), param(r, "to"), fillEntriesMax)
		answerOr(w, rows, err)
	})
}

// param is a number in a question between nodes; what is none is 0, which is no log's position.
func param(r *http.Request, name string) uint64 {
	n, _ := strconv.ParseUint(r.URL.Query().Get(name), 10, 64)
	return n
}

func answerOr(w http.ResponseWriter, body any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(err.Error())
		return
	}
	answer(w, body)
}
