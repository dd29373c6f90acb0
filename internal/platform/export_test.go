package platform

import (
	"context"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/web/api"
)

// ViewPartition lets a test read a partition's machine as this node has applied it.
func (p *Platform) ViewPartition(number int, f func(*lockcore.Machine)) {
	p.partitions[number-1].locks.View(f)
}

// AuditRootAt is the root of the first rows of a log in this node's audit.
func (p *Platform) AuditRootAt(ctx context.Context, log audit.Log, rows uint64) ([32]byte, error) {
	return p.audit.store.RootAt(ctx, log, rows)
}

// LimitAudit bounds the audit's file, as a full disk would; 0 gives the space back.
func (p *Platform) LimitAudit(ctx context.Context, bytesMax int64) error {
	return p.audit.store.SetBytesMax(ctx, bytesMax)
}

// TellKeyUses tells the uses of API keys that this node has noted, without waiting for its minute.
func (p *Platform) TellKeyUses(ctx context.Context) error { return p.tellKeyUses(ctx) }

// ReadPage reads a page of locks from a machine.
func ReadPage(m *lockcore.Machine, q api.LockQuery) api.LockPage {
	s := &scan{query: q}
	s.read(m)
	return s.page
}
