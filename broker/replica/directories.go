package replica

import "github.com/klamm/klamm/protocol"

// dirErr is why the directory of a log is out of service, nil where it is not.
func dirErr(log Log) error {
	if dir := log.Dir(); dir != nil {
		return dir.Err()
	}
	return nil
}

// directory is the id of the directory that a partition's log lies in.
func (p *Partition) directory() (id protocol.UUID, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.log.Dir() == nil {
		return protocol.ZeroUUID, false
	}
	return p.log.Dir().ID(), true
}

// DirFailed takes the partitions offline whose log directory is out of service.
func (m *Manager) DirFailed() {
	var leave []*Partition
	for p := range m.Partitions() {
		if p.FailWithDir() {
			leave = append(leave, p)
		}
	}
	m.cfg.Puller.Update(nil, leave)
	m.log.Error().Int("partitions", len(leave)).Msg("partitions are offline: their log directory has failed")
}

// FailWithDir takes the partition offline if its log directory is out of service, and
// tells whether it is.
func (p *Partition) FailWithDir() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.role == roleGone {
		return false
	}
	err := dirErr(p.log)
	if err != nil {
		p.failLocked(err)
	}
	return err != nil
}
