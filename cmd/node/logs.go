package node

import (
	"errors"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// logs is the storage.Store as the replica manager asks for it.
type logs struct {
	store *storage.Store
}

// dir returns the directory with an id; nil leaves the choice to the store.
func (l logs) dir(id protocol.UUID) *storage.Dir {
	for _, dir := range l.store.Dirs() {
		if dir.ID() == id {
			return dir
		}
	}
	return nil
}

// Open implements replica.Store.
func (l logs) Open(tp protocol.TopicPartition, topicID, dir protocol.UUID, config *replica.TopicConfig) (replica.Log, int64, error) {
	log, err := l.store.Create(tp, topicID, l.dir(dir))
	if err != nil {
		return nil, 0, err
	}
	log.SetConfig(config.Log)
	return log, l.store.HighWatermark(tp), nil
}

// Configure implements replica.Store.
func (l logs) Configure(tp protocol.TopicPartition, config *replica.TopicConfig) {
	if log, ok := l.store.Get(tp); ok {
		log.SetConfig(config.Log)
	}
}

// Delete implements replica.Store.
func (l logs) Delete(tp protocol.TopicPartition) error { return l.store.Delete(tp) }

// SetAside implements replica.Store.
func (l logs) SetAside(keep func(tp protocol.TopicPartition, topicID protocol.UUID) bool) error {
	var errs []error
	for tp, log := range l.store.Logs() {
		if !keep(tp, log.TopicID()) {
			errs = append(errs, l.store.SetAside(tp))
		}
	}
	return errors.Join(errs...)
}
