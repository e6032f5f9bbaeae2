package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/klamm/klamm/storage"
)

// watchDirs sees to log directories that go out of service, until ctx ends: their
// partitions are offline here, and the controller hears of it. It fails, and the
// node stops, with the last one, and with that which holds the metadata log.
func (h *brokerHalf) watchDirs(ctx context.Context) error {
	dirs := h.n.logDirs()
	failed := make(chan *storage.Dir)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, dir := range dirs {
		group.Go(func() {
			select {
			case <-dir.Failed():
				select {
				case failed <- dir:
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		})
	}
	for left := len(dirs); ; {
		select {
		case <-ctx.Done():
			return nil
		case dir := <-failed:
			left--
			if dir == h.n.dirs[0] {
				return fmt.Errorf("the metadata log lies there: %w", dir.Err())
			}
			if left == 0 {
				return errors.Join(errors.New("no log directory is left"), dir.Err())
			}
			h.replicas.DirFailed()
			h.broker.DirFailed(dir.ID())
		}
	}
}
