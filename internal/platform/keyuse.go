package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore/raftnode"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	// keyUseEvery is how often a node tells the uses of API keys that it has noted.
	keyUseEvery = time.Minute
	// keyUseTime bounds one telling.
	keyUseTime = 10 * time.Second
	// keyUsesMax bounds the API keys whose use a node notes between two tellings. Uses of others are noted a minute later.
	keyUsesMax = 1 << 16
	// keyUseCommandsMax bounds the commands of one telling at the control group's leader; what is left waits.
	keyUseCommandsMax = 16
	// keyUseStepMS is how much later a use must be to be noted again: writing one place in memory for every request would
	// have all processors fight for it.
	keyUseStepMS = 10_000

	keyUsePath = "/internal/key-uses"
)

// keyUses are the last uses of API keys that have not been told yet. Noting one takes no lock. Safe for concurrent use.
type keyUses struct {
	noted atomic.Pointer[keyUseMap]
}

// keyUseMap is filled from one telling to the next and then replaced, so that it forgets.
type keyUseMap struct {
	atMS sync.Map     // of tenants.APIKeyID to *atomic.Int64
	size atomic.Int64 // bounded by keyUsesMax
}

func newKeyUses() *keyUses {
	u := new(keyUses)
	u.noted.Store(new(keyUseMap))
	return u
}

// note notes that the API key, which must be one that was accepted, was used at a moment.
func (u *keyUses) note(key tenants.APIKeyID, atMS int64) {
	m := u.noted.Load()
	found, ok := m.atMS.Load(key)
	if !ok {
		if m.size.Load() >= keyUsesMax {
			return
		}
		if found, ok = m.atMS.LoadOrStore(key, new(atomic.Int64)); !ok {
			m.size.Add(1)
		}
	}
	last := found.(*atomic.Int64)
	for {
		was := last.Load()
		if atMS-was < keyUseStepMS || last.CompareAndSwap(was, atMS) {
			return
		}
	}
}

// take takes all uses out, in the order of their keys. One noted at this very moment may be lost, as any may when a node
// stops: a use is known to ten minutes, not to the second.
func (u *keyUses) take() []tenants.KeyUse {
	var uses []tenants.KeyUse
	u.noted.Swap(new(keyUseMap)).atMS.Range(func(key, at any) bool {
		uses = append(uses, tenants.KeyUse{Key: key.(tenants.APIKeyID), AtMS: at.(*atomic.Int64).Load()})
		return true
	})
	slices.SortFunc(uses, func(a, b tenants.KeyUse) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return uses
}

func (u *keyUses) noteAll(uses []tenants.KeyUse) {
	for _, use := range uses {
		u.note(use.Key, use.AtMS)
	}
}

// keyUse tells once a minute which API keys have been used: to the control group's leader, which puts into the log what is
// news. What could not be told is told the next time.
func (p *Platform) keyUse(ctx context.Context) error {
	ticker := time.NewTicker(keyUseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := p.tellKeyUses(ctx); err != nil {
			p.log.Debug("uses of API keys not told yet", "error", err)
		}
	}
}

func (p *Platform) tellKeyUses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keyUseTime)
	defer cancel()
	uses := p.uses.take()
	leader := p.control.group.Status().Leader
	switch {
	case len(uses) == 0:
		return nil
	case leader == p.config.Node:
		return p.recordKeyUses(ctx, uses)
	}
	err := errNoControlLeader
	if leader != "" {
		err = p.sendKeyUses(ctx, leader, uses)
	}
	if err != nil {
		p.uses.noteAll(uses)
	}
	return err
}

var errNoControlLeader = errors.New("no leader of the control group is known")

// toldUse is a use of an API key as nodes tell it.
type toldUse struct {
	Key  tenants.APIKeyID `json:"key"`
	AtMS int64            `json:"at_ms"`
}

func (p *Platform) sendKeyUses(ctx context.Context, to raftnode.NodeID, uses []tenants.KeyUse) error {
	told := make([]toldUse, 0, len(uses))
	for _, u := range uses {
		told = append(told, toldUse{u.Key, u.AtMS})
	}
	return p.ask(ctx, to, http.MethodPost, keyUsePath, told, nil)
}

// takeKeyUses notes what another node tells. This node need not lead the control group any more: it tells them on.
func (p *Platform) takeKeyUses(w http.ResponseWriter, r *http.Request) {
	var told []toldUse
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, internalBytesMax)).Decode(&told)
	if err != nil || len(told) > keyUsesMax {
		http.Error(w, "no list of uses of API keys", http.StatusBadRequest)
		return
	}
	now := time.Now().UnixMilli()
	for _, u := range told {
		if u.Key.Valid() && u.AtMS > 0 {
			p.uses.note(u.Key, min(u.AtMS, now))
		}
	}
	answer(w, struct{}{})
}

// recordKeyUses puts what is news into the control log. What is left over, or was not taken, is noted again.
func (p *Platform) recordKeyUses(ctx context.Context, uses []tenants.KeyUse) error {
	p.control.view(func(m *control.Machine) {
		uses = slices.DeleteFunc(uses, func(u tenants.KeyUse) bool { return !m.UseIsNews(u.Key, u.AtMS) })
	})
	commands := 0
	for some := range slices.Chunk(uses, tenants.KeyUsesMax) {
		if commands++; commands > keyUseCommandsMax {
			p.uses.noteAll(some)
			continue
		}
		r, err := p.Control(ctx, control.Entry{Tenants: tenants.RecordKeyUses{Uses: some, AtMS: time.Now().UnixMilli()}})
		switch {
		case err != nil:
			p.uses.noteAll(uses[(commands-1)*tenants.KeyUsesMax:])
			return fmt.Errorf("record uses of API keys: %w", err)
		case !r.OK:
			return fmt.Errorf("control log refused uses of API keys: %s %s", r.Reason, r.Field)
		}
	}
	return nil
}
