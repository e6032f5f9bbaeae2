package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// NewStore returns the logs of a storage.Store as a Manager wants them.
func NewStore(store *storage.Store) Store { return diskStore{store} }

type diskStore struct{ logs *storage.Store }

func (s diskStore) Open(tp protocol.TopicPartition, topicID, id protocol.UUID, config *TopicConfig) (Log, int64, error) {
	dir, err := s.dir(tp, id)
	if err != nil {
		return nil, 0, err
	}
	log, err := s.logs.Create(tp, topicID, dir)
	if errors.Is(err, protocol.ErrInconsistentTopicID) {
		// A log of an earlier topic of this name, whose end failed or was not
		// seen. What it holds is kept, under another name.
		if err = s.logs.SetAside(tp); err == nil {
			log, err = s.logs.Create(tp, topicID, dir)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	log.SetConfig(logConfig(config))
	return log, s.logs.HighWatermark(tp), nil
}

// dir finds a directory by its id. Where the metadata names none at all the store
// chooses, and where it names none of ours, but not while one of ours is out of
// service: the replica may be in that one, and must not begin again empty in
// another.
func (s diskStore) dir(tp protocol.TopicPartition, id protocol.UUID) (*storage.Dir, error) {
	var offline error
	for _, d := range s.logs.Dirs() {
		if d.ID() == id {
			return d, nil
		}
		if err := d.Err(); err != nil {
			offline = err
		}
	}
	if _, here := s.logs.Get(tp); here || id == protocol.UnassignedDir || offline == nil {
		return nil, nil
	}
	return nil, fmt.Errorf("%s may be in a log directory that is out of service: %w", tp, offline)
}

func (s diskStore) Configure(tp protocol.TopicPartition, config *TopicConfig) {
	if log, ok := s.logs.Get(tp); ok {
		log.SetConfig(logConfig(config))
	}
}

// logConfig draws the jitter, which is each log's own.
func logConfig(config *TopicConfig) storage.LogConfig {
	c := config.Log
	if c.SegmentJitterMs > 0 {
		c.SegmentJitterMs = rand.Int64N(c.SegmentJitterMs + 1)
	}
	return c
}

func (s diskStore) Delete(tps ...protocol.TopicPartition) error { return s.logs.Delete(tps...) }

func (s diskStore) SetAside(keep func(tp protocol.TopicPartition, topicID protocol.UUID) bool) error {
	var errs []error
	for tp, log := range s.logs.Logs() {
		if !keep(tp, log.TopicID()) {
			errs = append(errs, s.logs.SetAside(tp))
		}
	}
	return errors.Join(errs...)
}
