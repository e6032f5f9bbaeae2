package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// VersionRange is an API with the versions that ApiVersions lists, both inclusive.
type VersionRange struct {
	Key, Min, Max int16
}

// Server serves one listener.
type Server struct {
	cfg    Config
	log    zerolog.Logger
	byKey  []*API
	listed []VersionRange

	lastID atomic.Uint64
}

// New returns a server of the APIs. It starts nothing.
func New(cfg Config, apis []API, log zerolog.Logger) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg,
		log: log.With().Str("component", "server").Str("listener", cfg.Listener).Logger(),
	}
	s.cfg.Connections.serve(cfg.Listener)
	for _, api := range slices.SortedFunc(slices.Values(apis), func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		if err := s.addAPI(api); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) addAPI(api API) error {
	info, ok := protocol.API(api.Key)
	switch {
	case !ok:
		return fmt.Errorf("key %d is no api", api.Key)
	case !info.On.Has(s.cfg.Kind):
		return fmt.Errorf("%s is not served on a %s listener", info.Name, s.cfg.Kind)
	case api.Handle == nil:
		return fmt.Errorf("%s has no handler", info.Name)
	case api.Min > api.Max || api.Min < info.Min || api.Max > info.Max || api.Max > kmsg.RequestForKey(api.Key).MaxVersion():
		return fmt.Errorf("%s: versions %d to %d are not within %d to %d", info.Name, api.Min, api.Max, info.Min, info.Max)
	case s.api(api.Key) != nil:
		return fmt.Errorf("%s is given twice", info.Name)
	}
	for len(s.byKey) <= int(api.Key) {
		s.byKey = append(s.byKey, nil)
	}
	s.byKey[api.Key] = &api
	if info.IsListed() {
		r := VersionRange{Key: api.Key, Min: api.Min, Max: api.Max}
		if api.Min == info.Min {
			r.Min = info.ListedMin()
		}
		s.listed = append(s.listed, r)
	}
	return nil
}

// api returns the served API of that key, or nil.
func (s *Server) api(key int16) *API {
	if key < 0 || int(key) >= len(s.byKey) {
		return nil
	}
	return s.byKey[key]
}

// Serve accepts connections from ln until ctx ends, then closes ln, lets every
// connection write the answers that it owes, and returns when all its
// goroutines have ended. A TLS listener wraps ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		nc, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				reset(nc)
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
			}
			// Out of descriptors, most often: connections that end will cure it.
			s.log.Error().Err(err).Msg("accept failed")
			if pause(ctx, acceptPause) != nil {
				return nil
			}
			continue
		}
		if s.cfg.Connections.awaitTurn(ctx, s.cfg.Listener) != nil {
			reset(nc)
			return nil
		}
		c := newConn(s, s.lastID.Add(1), nc)
		if !s.cfg.Connections.admit(c) {
			s.log.Warn().Stringer("remote", nc.RemoteAddr()).Msg("connection refused: too many are open")
			_ = nc.Close()
			continue
		}
		conns.Go(func() {
			defer s.cfg.Connections.leave(c)
			c.run(ctx)
		})
	}
}

// acceptPause keeps a failing accept from spinning.
const acceptPause = 100 * time.Millisecond

// Connections is the number of the listener's connections that are open.
func (s *Server) Connections() int { return s.cfg.Connections.of(s.cfg.Listener) }
