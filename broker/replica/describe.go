package replica

import (
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// EndOffsetForEpoch returns the largest leader epoch known that is not above the
// one asked for, and where it ends (exclusive); −1, −1 where there is none
// (KIP-101). believed is the epoch that the asker takes for the present one, −1
// for no belief.
func (p *Partition) EndOffsetForEpoch(believed, epoch protocol.LeaderEpoch) (protocol.LeaderEpoch, int64, error) {
	p.mu.Lock()
	log, err := p.log, p.checkRoleLocked(believed)
	p.mu.Unlock()
	if err != nil {
		return -1, -1, err
	}
	found, end := log.EndOffsetFor(epoch)
	return found, end, nil
}

// ActiveProducers returns what the leader's log remembers of producers.
func (p *Partition) ActiveProducers() ([]storage.ActiveProducer, error) {
	p.mu.Lock()
	log, err := p.log, p.checkRoleLocked(-1)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return log.ActiveProducers(), nil
}
