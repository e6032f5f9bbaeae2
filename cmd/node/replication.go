package node

import (
	"context"
	"fmt"
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/broker/replica/fetcher"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/quota"
)

// leaderSilence is for how long a leader's host may not be heard of. A follower that
// waits longer than a cut lasts leaves the ISR, or holds up all acks=all writes.
const leaderSilence = 4 * time.Second

// newPuller pulls from the other brokers what is followed here.
func (h *brokerHalf) newPuller() *fetcher.Pool {
	cfg := h.n.cfg
	dial := client.Config{ClientID: fmt.Sprintf("broker-%d-fetcher", cfg.Node.ID), Reuse: true, Silence: leaderSilence}
	return fetcher.New(fetcher.Config{
		Node:  cfg.Node.ID,
		Epoch: h.broker.Epoch,
		Addr:  h.peer,
		Dial: func(ctx context.Context, addr string) (fetcher.Conn, error) {
			conn, err := client.Dial(ctx, addr, dial)
			if err != nil {
				return nil, err // a nil *client.Conn must not become a Conn
			}
			return conn, nil
		},
		PerSource:      cfg.Replicas.Fetchers,
		MaxWait:        cfg.Replicas.FetchWait,
		MinBytes:       cfg.Replicas.FetchMinBytes,
		MaxBytes:       cfg.Replicas.ResponseBytes,
		PartitionBytes: cfg.Replicas.FetchBytes,
		Backoff:        cfg.Replicas.FetchBackoff,
		Timeout:        cfg.Broker.RequestTimeout,
		Throttle:       h.throttles.follower,
	}, h.n.log)
}

// throttles are the rates that replication is held to (KIP-73): what is sent from
// here, and what is fetched.
type throttles struct{ leader, follower *quota.Rate }

func newThrottles(cfg config.Replicas) throttles {
	return throttles{
		leader:   quota.NewRate(cfg.QuotaWindows, cfg.QuotaWindow),
		follower: quota.NewRate(cfg.QuotaWindows, cfg.QuotaWindow),
	}
}

func (t throttles) set(d config.Dynamic) {
	t.leader.Set(d.LeaderRate)
	t.follower.Set(d.FollowerRate)
}

// peer is where a broker listens for brokers. It is looked for in the newest
// image: who is to be fetched from is asked for while that is being acted on.
func (h *brokerHalf) peer(id protocol.NodeID) (string, bool) {
	b, ok := h.meta.replayer.Image().Broker(id)
	if !ok {
		return "", false
	}
	for _, e := range b.Endpoints {
		if e.Name == h.n.cfg.Listeners.InterBroker {
			return e.Address(), true
		}
	}
	return "", false
}

// inSync is what the in-sync sets of the partitions led here go by.
func (h *brokerHalf) inSync() replica.ISRConfig {
	return replica.ISRConfig{Controller: h.requests, Epoch: h.broker.Epoch, MaxLag: h.n.cfg.Replicas.LagTime}
}
