package platform

import "github.com/stanchion-locks/stanchion/lockcore"

// ViewPartition lets a test read a partition's machine as this node has applied it.
func (p *Platform) ViewPartition(number int, f func(*lockcore.Machine)) {
	p.partitions[number-1].locks.View(f)
}
