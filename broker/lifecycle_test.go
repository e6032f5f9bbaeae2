package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// cluster is a controller with its metadata log, in memory: it answers
// registrations and heartbeats and publishes the records that they lead to.
type cluster struct {
	t     *testing.T
	began time.Time

	mu          sync.Mutex
	img         *metadata.Image
	subscribers []Subscriber
	events      []string

	duplicates int            // refuse so many registrations as duplicates
	refuse     protocol.Error // refuse all registrations
	silent     bool           // answer nothing
	same       bool           // registrations are of the life that is registered
	stale      bool           // do not know the broker any more
	lag        time.Duration  // until a record is published
	moves      time.Duration  // what a controlled shutdown takes
	follow     bool           // let a broker go once it has seen its shutdown in the log
	stopAt     time.Time
	lost       chan struct{} // Config.Lost, where a test sets it
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, began: time.Now(), img: metadata.Empty()}
	c.publish(&record.FeatureLevel{Name: "metadata.version", Level: 33})
	return c
}

func (c *cluster) event(format string, args ...any) {
	c.events = append(c.events, fmt.Sprintf("%v ", time.Since(c.began))+fmt.Sprintf(format, args...))
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event(format, args...)
}

// publish appends records as one batch. Called with mu held but at the start.
func (c *cluster) publish(records ...record.Record) {
	d := metadata.NewDelta(c.img)
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			c.t.Error(err)
		}
	}
	c.img = d.Apply(c.img.Offset()+int64(len(records)), 1, 0)
	for _, s := range c.subscribers {
		s.Publish(d, c.img)
	}
}

func (c *cluster) publishLater(records ...record.Record) {
	if c.lag == 0 {
		c.publish(records...)
		return
	}
	time.AfterFunc(c.lag, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.publish(records...)
	})
}

func (c *cluster) Subscribe(s Subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := metadata.NewDelta(metadata.Empty())
	for r := range c.img.Records() {
		if err := d.Replay(r); err != nil {
			c.t.Error(err)
		}
	}
	c.subscribers = append(c.subscribers, s)
	s.Publish(d, c.img)
}

func (c *cluster) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	time.Sleep(time.Millisecond) // the way there and back
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, fmt.Errorf("%w: nobody there", protocol.ErrRequestTimedOut)
	}
	switch r := req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		return c.register(r), nil
	case *kmsg.BrokerHeartbeatRequest:
		return c.heartbeat(r), nil
	}
	return nil, fmt.Errorf("no answer to %T", req)
}

func (c *cluster) register(r *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	switch {
	case c.refuse != protocol.None:
		return &kmsg.BrokerRegistrationResponse{ErrorCode: int16(c.refuse), BrokerEpoch: -1}
	case c.duplicates > 0:
		c.duplicates--
		return &kmsg.BrokerRegistrationResponse{ErrorCode: int16(protocol.ErrDuplicateBrokerRegistration), BrokerEpoch: -1}
	}
	if c.same {
		c.event("register again")
		b, _ := c.img.Broker(protocol.NodeID(r.BrokerID))
		return &kmsg.BrokerRegistrationResponse{BrokerEpoch: int64(b.Epoch)}
	}
	epoch := c.img.Offset() + 1
	c.event("register previous=%d", r.PreviousBrokerEpoch)
	c.publishLater(&record.RegisterBroker{
		BrokerID: protocol.NodeID(r.BrokerID), IncarnationID: r.IncarnationID, BrokerEpoch: protocol.BrokerEpoch(epoch), Fenced: true,
	})
	return &kmsg.BrokerRegistrationResponse{BrokerEpoch: epoch}
}

func (c *cluster) heartbeat(r *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse {
	if c.stale {
		c.event("heartbeat of a stale epoch")
		return &kmsg.BrokerHeartbeatResponse{ErrorCode: int16(protocol.ErrStaleBrokerEpoch)}
	}
	b, ok := c.img.Broker(protocol.NodeID(r.BrokerID))
	if !ok || int64(b.Epoch) != r.BrokerEpoch {
		c.t.Errorf("heartbeat of epoch %d, registered is %+v", r.BrokerEpoch, b)
	}
	c.event("heartbeat offset=%d fence=%v shutdown=%v", r.CurrentMetadataOffset, r.WantFence, r.WantShutdown)
	for _, dir := range r.OfflineLogDirs {
		c.event("without directory %d", dir[0])
	}
	fenced := b.Fenced
	if fenced && !r.WantFence {
		c.publishLater(&record.BrokerRegistrationChange{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: -1})
		fenced = false
	}
	resp := &kmsg.BrokerHeartbeatResponse{IsCaughtUp: true, IsFenced: fenced}
	if r.WantShutdown {
		if c.stopAt.IsZero() {
			c.stopAt = time.Now().Add(c.moves)
		}
		resp.ShouldShutdown = !time.Now().Before(c.stopAt)
		if c.follow {
			resp.ShouldShutdown = b.InControlledShutdown && r.CurrentMetadataOffset >= c.img.Offset()
			if !b.InControlledShutdown {
				c.publishLater(&record.BrokerRegistrationChange{BrokerID: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: 1})
			}
		}
	}
	return resp
}

func (c *cluster) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.events, "\n")
}

// replicas notes what it is told.
type replicas struct {
	cluster *cluster
	takes   time.Duration
}

func (r *replicas) Apply(_ *metadata.Delta, img *metadata.Image) {
	time.Sleep(r.takes)
	r.cluster.event("apply offset=%d", img.Offset()) // mu is held by publish
}

func (c *cluster) config() Config {
	return Config{
		NodeID: 1, ClusterID: "c", PreviousEpoch: -1, ControlledShutdown: true,
		Controller: c, Requests: c, Subscribe: c.Subscribe, Replicas: &replicas{cluster: c},
		Load: func(context.Context, *metadata.Image) error {
			c.note("load")
			return nil
		},
	}
}

// life runs a broker until stop is called, which returns Run's error.
func life(t *testing.T, cfg Config) (b *Broker, stop func() error) {
	b = New(cfg, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- b.Run(ctx) }()
	return b, func() error {
		cancel()
		return <-end
	}
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimSpace(want); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Nothing but the steps themselves takes time: two requests of a millisecond.
func TestStartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b, stop := life(t, c.config())
		<-b.Serving()
		if b.State() != Running || b.Epoch() != 1 {
			t.Errorf("state %v, epoch %d", b.State(), b.Epoch())
		}
		self, ok := b.Image().Broker(1)
		if !ok || self.Fenced {
			t.Errorf("serves, but its own image has %+v", self)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if b.State() != ShuttingDown {
			t.Errorf("state %v after the stop", b.State())
		}
		compare(t, c.printed(), `
1ms register previous=-1
1ms load
1ms apply offset=1
2ms heartbeat offset=1 fence=false shutdown=false
2ms apply offset=2
3ms heartbeat offset=2 fence=false shutdown=true`)
	})
}

// The replay is behind the answers: the broker waits for the metadata, not for
// its next heartbeat, and serves when it sees itself unfenced.
func TestStartFollowsTheMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.lag = 20 * time.Millisecond
		cfg := c.config()
		cfg.Replicas = &replicas{cluster: c, takes: 5 * time.Millisecond}
		b, stop := life(t, cfg)
		<-b.Serving()
		c.note("serving")
		_ = stop()
		got := strings.Join(slices.DeleteFunc(strings.Split(c.printed(), "\n"), func(s string) bool { return strings.Contains(s, "shutdown=true") }), "\n")
		compare(t, got, `
1ms register previous=-1
21ms load
26ms apply offset=1
27ms heartbeat offset=1 fence=false shutdown=false
52ms apply offset=2
52ms serving`)
	})
}

// Recovery of logs may take long; the session must not end over it.
func TestHeartbeatsDuringRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		cfg := c.config()
		cfg.Load = func(context.Context, *metadata.Image) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		b, stop := life(t, cfg)
		<-b.Serving()
		_ = stop()
		compare(t, c.printed(), `
1ms register previous=-1
2.002s heartbeat offset=1 fence=true shutdown=false
4.003s heartbeat offset=1 fence=true shutdown=false
5.001s apply offset=1
5.002s heartbeat offset=1 fence=false shutdown=false
5.002s apply offset=2
5.003s heartbeat offset=2 fence=false shutdown=true`)
	})
}

func TestHeartbeatsWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b, stop := life(t, c.config())
		<-b.Serving()
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if n := strings.Count(c.printed(), "heartbeat"); n != 4 {
			t.Errorf("%d heartbeats in 7s, want one every 2s:\n%s", n, c.printed())
		}
		_ = stop()
	})
}

// Another controller hears of the broker at once: by the end of the connection it will
// know when this process is gone.
func TestHeartbeatToAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		cfg := c.config()
		moved := make(chan struct{})
		var mu sync.Mutex
		cfg.Moved = func() <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return moved
		}
		b, stop := life(t, cfg)
		<-b.Serving()
		time.Sleep(500 * time.Millisecond)
		heard := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.events)
		}
		before := heard()
		mu.Lock()
		close(moved)
		moved = make(chan struct{})
		mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := heard() - before; n != 1 {
			t.Errorf("%d heartbeats at a change of the controller, want 1", n)
		}
		_ = stop()
	})
}

// A directory that fails is reported at once, and with every heartbeat from then on.
func TestFailedDirectoryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		cfg := c.config()
		cfg.LogDirs = []protocol.UUID{{8}, {9}}
		b, stop := life(t, cfg)
		<-b.Serving()
		b.DirFailed(protocol.UUID{8})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := strings.Count(c.printed(), "without directory 8"); n != 3 {
			t.Errorf("reported %d times in 5s, want at once and every 2s:\n%s", n, c.printed())
		}
		if dirs := b.registration().LogDirs; len(dirs) != 1 || dirs[0] != (protocol.UUID{9}) {
			t.Errorf("registers directories %v", dirs)
		}
		_ = stop()
	})
}

// A broker that was registered when metadata knew no directories registers once more
// when it does.
func TestDirectoriesAreRegisteredWhenTheyAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.publish(&record.FeatureLevel{Name: "metadata.version", Level: 16})
		b, stop := life(t, c.config())
		<-b.Serving()
		time.Sleep(time.Minute)
		c.mu.Lock()
		c.same = true
		c.publish(&record.FeatureLevel{Name: "metadata.version", Level: 17})
		c.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(c.printed(), "register "); n != 2 {
			t.Errorf("%d registrations, want 2:\n%s", n, c.printed())
		}
		_ = stop()
	})
}

func TestDuplicateRegistrationIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.duplicates = 5
		b, stop := life(t, c.config())
		<-b.Serving()
		if took := time.Since(c.began); took > 2*time.Second {
			t.Errorf("registered after %v", took)
		}
		_ = stop()
	})
}

func TestFailedRegistrationNamesTheReason(t *testing.T) {
	for _, test := range []struct {
		name   string
		set    func(*cluster)
		within time.Duration
		want   string
	}{
		{"another cluster", func(c *cluster) { c.refuse = protocol.ErrInconsistentClusterID }, time.Second, "INCONSISTENT_CLUSTER_ID: the controllers belong to another cluster"},
		{"too old", func(c *cluster) { c.refuse = protocol.ErrUnsupportedVersion }, time.Second, "UNSUPPORTED_VERSION: the cluster has finalized"},
		{"twin", func(c *cluster) { c.duplicates = 1 << 30 }, 61 * time.Second, "no success within 1m0s: DUPLICATE_BROKER_REGISTRATION: another broker with this node.id is alive"},
		{"nobody", func(c *cluster) { c.silent = true }, 61 * time.Second, "no success within 1m0s: REQUEST_TIMED_OUT: nobody there"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			test.set(c)
			b := New(c.config(), zerolog.Nop())
			err := b.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.want)
			}
			if took := time.Since(c.began); took > test.within {
				t.Errorf("%s: took %v", test.name, took)
			}
			if isClosed(b.Serving()) {
				t.Errorf("%s: serves", test.name)
			}
		})
	}
}

func TestRegistrationRequest(t *testing.T) {
	rack := "r1"
	b := New(Config{
		NodeID: 7, ClusterID: "c", Rack: &rack, PreviousEpoch: 42,
		Endpoints: []record.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092, SecurityProtocol: 0}},
		LogDirs:   []protocol.UUID{{9}, {3}},
	}, zerolog.Nop())
	req := b.registration()
	if req.BrokerID != 7 || req.ClusterID != "c" || *req.Rack != rack || req.PreviousBrokerEpoch != 42 || req.IncarnationID == [16]byte{} {
		t.Errorf("got %+v", req)
	}
	if len(req.LogDirs) != 2 || req.LogDirs[0][0] != 3 || len(req.Listeners) != 1 || req.Listeners[0].Port != 9092 {
		t.Errorf("got dirs %v, listeners %v", req.LogDirs, req.Listeners)
	}
	if len(req.Features) != 7 || req.Features[3].Name != "metadata.version" || req.Features[3].MaxSupportedVersion != 33 {
		t.Errorf("got features %v", req.Features)
	}
	again := New(b.cfg, zerolog.Nop()).registration()
	if again.IncarnationID == req.IncarnationID {
		t.Error("two lives have one incarnation id")
	}
}

// The controller needs a while to move leaderships; it is asked often enough
// that the stop ends soon after it is done.
func TestControlledShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.moves = 700 * time.Millisecond
		b, stop := life(t, c.config())
		<-b.Serving()
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 700*time.Millisecond || took > 800*time.Millisecond {
			t.Errorf("took %v, want a little more than 700ms", took)
		}
	})
}

// The controller lets a broker go when that has seen its leaderships move. The
// broker tells as soon as it has, be that before the first answer or after.
func TestControlledShutdownFollowsTheMetadata(t *testing.T) {
	for _, lag := range []time.Duration{0, 7 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.follow, c.lag = true, lag
			b, stop := life(t, c.config())
			<-b.Serving()
			begin := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took != lag+2*time.Millisecond {
				t.Errorf("took %v, want two requests of 1ms and the %v of the log", took, lag)
			}
		})
	}
}

func TestStopWithoutAController(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*cluster)
		want time.Duration
	}{
		{"silent", func(c *cluster) { c.silent = true }, 5 * time.Second},
		{"never done", func(c *cluster) { c.moves = time.Hour }, 30 * time.Second},
		{"unregistered", func(c *cluster) { c.stale = true }, 2 * time.Millisecond},
		{"log lost", func(c *cluster) { c.silent = true; close(c.lost) }, 2 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.lost = make(chan struct{})
			cfg := c.config()
			cfg.Lost = c.lost
			b, stop := life(t, cfg)
			<-b.Serving()
			c.mu.Lock()
			test.set(c)
			c.mu.Unlock()
			begin := time.Now()
			if err := stop(); err != nil {
				t.Error(test.name, err)
			}
			if took := time.Since(begin); took < test.want/2 || took > test.want+test.want/2 {
				t.Errorf("%s: took %v, want about %v", test.name, took, test.want)
			}
		})
	}
}

// Wherever a start is when the node is told to stop, it stops at once.
func TestStopDuringStart(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 25 * time.Millisecond, 60 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.lag = 20 * time.Millisecond
			cfg := c.config()
			cfg.Load = func(ctx context.Context, _ *metadata.Image) error {
				sleep(ctx, 30*time.Millisecond)
				return ctx.Err()
			}
			_, stop := life(t, cfg)
			time.Sleep(after)
			begin := time.Now()
			if err := stop(); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
			if took := time.Since(begin); took > 30*time.Millisecond {
				t.Errorf("after %v: stop took %v", after, took)
			}
			time.Sleep(time.Second) // records still under way
		})
	}
}

func TestFailureStopsTheBroker(t *testing.T) {
	broken := errors.New("disk is gone")
	for _, test := range []struct {
		name string
		set  func(*Config)
	}{
		{"load", func(cfg *Config) { cfg.Load = func(context.Context, *metadata.Image) error { return broken } }},
		{"background", func(cfg *Config) {
			cfg.Background = []func(context.Context) error{func(context.Context) error {
				time.Sleep(3 * time.Second)
				return broken
			}}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := newCluster(t).config()
			test.set(&cfg)
			if err := New(cfg, zerolog.Nop()).Run(t.Context()); !errors.Is(err, broken) {
				t.Errorf("%s: got %v", test.name, err)
			}
		})
	}
}

// What runs in the background runs until the controlled shutdown is over: the
// leaderships that move need it.
func TestBackgroundOutlivesTheControlledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.moves = time.Second
		cfg := c.config()
		var ended time.Time
		cfg.Background = []func(context.Context) error{func(ctx context.Context) error {
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		}}
		b, stop := life(t, cfg)
		<-b.Serving()
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if ended.Sub(begin) < time.Second {
			t.Errorf("background ended %v after the stop began", ended.Sub(begin))
		}
	})
}
