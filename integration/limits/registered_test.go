//go:build integration

package limits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

// quorum is controllers, asked as brokers ask them.
type quorum struct {
	*world
	mu     sync.Mutex
	conns  map[line]*client.Conn
	active string // address of the active controller, as far as is known
}

// line is a connection of one of those who ask: a request waits for those before it
// on its connection.
type line struct {
	who  int32
	addr string
}

func startQuorum(t *testing.T, controllers int, settings ...string) *quorum {
	t.Helper()
	kinds := slices.Repeat([]harness.Kind{harness.Klamm}, controllers)
	q := &quorum{conns: map[line]*client.Conn{}, world: newWorld(t, harness.StartSplit(t, kinds, nil, settings...))}
	t.Cleanup(func() {
		for _, c := range q.conns {
			_ = c.Close()
		}
	})
	return q
}

func (q *quorum) conn(who int32, addr string) (*client.Conn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.conns[line{who, addr}]; c != nil && c.Err() == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := client.Dial(ctx, addr, client.Config{ClientID: "limits"})
	if err == nil {
		q.conns[line{who, addr}] = c
	}
	return c, err
}

// admin is who is no broker.
const admin = -1

var errNotActive = errors.New("not the active controller")

// do sends a request to the active controller, and looks for it until code says
// that the answer is one.
func do[R kmsg.Response](q *quorum, who int32, req kmsg.Request, code func(R) int16) (R, error) {
	var none R
	err := errNotActive
	for deadline := time.Now().Add(q.Patience); time.Now().Before(deadline); {
		for _, n := range q.Controllers {
			q.mu.Lock()
			active := q.active
			q.mu.Unlock()
			if active != "" && active != n.Controller {
				continue
			}
			var c *client.Conn
			if c, err = q.conn(who, n.Controller); err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), q.Patience)
				var resp kmsg.Response
				resp, err = c.Request(ctx, req)
				cancel()
				if err == nil {
					answer := resp.(R)
					if protocol.Error(code(answer)) != protocol.ErrNotController {
						q.mu.Lock()
						q.active = n.Controller
						q.mu.Unlock()
						return answer, nil
					}
					err = errNotActive
				}
			}
			q.mu.Lock()
			q.active = ""
			q.mu.Unlock()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return none, err
}

// activeNode is the node of the active controller.
func (q *quorum) activeNode() *harness.Node {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.Controllers {
		if n.Controller == q.active {
			return n
		}
	}
	q.T.Fatal("nobody is known to be the active controller")
	return nil
}

// fake is a broker that only registers and sends heartbeats.
type fake struct {
	q     *quorum
	id    int32
	epoch int64
	stop  chan struct{}
	done  chan struct{}
}

func (q *quorum) register(id int32) *fake {
	q.T.Helper()
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = id, harness.ClusterID, -1
	_, _ = rand.Read(req.IncarnationID[:])
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Name, listener.Host, listener.Port = "PLAINTEXT", "localhost", 1
	req.Listeners = append(req.Listeners, listener)
	c, err := q.conn(id, q.Controllers[0].Controller)
	if err != nil {
		q.T.Fatal(err)
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "limits", "1"
	supported, err := c.Request(q.Within(), versions)
	if err != nil {
		q.T.Fatal(err)
	}
	for _, s := range supported.(*kmsg.ApiVersionsResponse).SupportedFeatures {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = s.Name, s.MinVersion, s.MaxVersion
		req.Features = append(req.Features, f)
	}
	var dir [16]byte
	_, _ = rand.Read(dir[:])
	req.LogDirs = append(req.LogDirs, dir)
	resp, err := do(q, id, req, func(r *kmsg.BrokerRegistrationResponse) int16 { return r.ErrorCode })
	if err != nil || resp.ErrorCode != 0 {
		q.T.Fatalf("register %d: %+v, %v", id, resp, err)
	}
	f := &fake{q: q, id: id, epoch: resp.BrokerEpoch, stop: make(chan struct{}), done: make(chan struct{})}
	f.beat()
	go func() {
		defer close(f.done)
		for {
			select {
			case <-f.stop:
				return
			case <-time.After(500 * time.Millisecond):
				f.beat()
			}
		}
	}()
	q.T.Cleanup(f.end)
	return f
}

func (f *fake) end() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	<-f.done
}

func (f *fake) beat() {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = f.id, f.epoch, 1<<40
	resp, err := do(f.q, f.id, req, func(r *kmsg.BrokerHeartbeatResponse) int16 { return r.ErrorCode })
	if err != nil || resp.ErrorCode != 0 || resp.IsFenced {
		f.q.T.Errorf("heartbeat of %d: %+v, %v", f.id, resp, err)
	}
}

func (q *quorum) create(req *kmsg.CreateTopicsRequest) {
	q.T.Helper()
	resp, err := do(q, admin, req, func(r *kmsg.CreateTopicsResponse) int16 { return r.Topics[0].ErrorCode })
	if err != nil {
		q.T.Fatal(err)
	}
	q.created(resp)
}

// size is what a node's metadata takes on disk.
func (q *quorum) size(n *harness.Node) (log, checkpoint int64) {
	q.T.Helper()
	files, err := filepath.Glob(filepath.Join(n.Data(), protocol.MetadataTopic+"-0", "*"))
	if err != nil {
		q.T.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue // it goes
		}
		switch filepath.Ext(file) {
		case ".log":
			log += info.Size()
		case ".checkpoint":
			checkpoint = max(checkpoint, info.Size())
		}
	}
	return log, checkpoint
}

// Three controllers with more partitions than this machine has room for: their
// brokers only register.
func TestManyRegistered(t *testing.T) {
	q := startQuorum(t, 3, "auto.leader.rebalance.enable=false")
	var fakes []*fake
	for id := range int32(3) {
		fakes = append(fakes, q.register(id+1))
	}
	q.step()
	for from := 0; from < *partitions; from += perRequest {
		q.create(creation(3, from, min(from+perRequest, *partitions)))
	}
	q.report(fmt.Sprintf("%d partitions created, %d a request", *partitions, perRequest), q.Controllers...)
	time.Sleep(2 * time.Second)
	q.step()
	time.Sleep(5 * time.Second)
	q.report("idle", q.Controllers...)

	q.step()
	for i := range 100 {
		q.create(oneTopic(fmt.Sprint("one-", i), 3))
	}
	q.report("100 topics created, one after the other", q.Controllers...)

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 60_000
	q.step()
	resp, err := do(q, admin, elect, func(r *kmsg.ElectLeadersResponse) int16 { return r.ErrorCode })
	if err != nil || resp.ErrorCode != 0 {
		t.Fatalf("elect leaders: %+v, %v", resp, err)
	}
	q.report("preferred leaders asked for, all lead", q.Controllers...)

	// The active controller dies.
	victim := q.activeNode()
	q.step()
	used := victim.Usage().CPU
	victim.Kill()
	q.began = time.Now()
	q.used -= used
	q.create(oneTopic("without", 3))
	var rest []*harness.Node
	for _, n := range q.Controllers {
		if n != victim {
			rest = append(rest, n)
		}
	}
	q.report("active controller killed, the next creation", rest...)
	q.stepOf(rest)
	victim.Restart()
	q.report("it started again, listener open", q.Controllers...)

	// A broker goes for good: its partitions are moved in one request.
	fakes[2].end()
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 3
	q.step()
	gone, err := do(q, admin, unregister, func(r *kmsg.UnregisterBrokerResponse) int16 { return r.ErrorCode })
	if err != nil || gone.ErrorCode != 0 {
		t.Fatalf("unregister: %+v, %v", gone, err)
	}
	q.report("a broker of all partitions unregistered", q.Controllers...)

	// Another is silent: a few partitions at a time are taken from it.
	fakes[1].end()
	fenced := func(more bool) func() bool {
		line := fmt.Sprintf(`"more":%t`, more)
		return func() bool {
			return slices.ContainsFunc(q.Controllers, func(n *harness.Node) bool { return strings.Contains(n.Log(), line) })
		}
	}
	if *partitions > 10_000 {
		q.Await("the begin of a fence", fenced(true))
	}
	q.step()
	q.Await("a fence", fenced(false))
	q.create(oneTopic("behind", 1)) // it is answered behind the fence
	q.report("a silent broker fenced, from the first of it on", q.Controllers...)

	for i, n := range q.Controllers {
		log, checkpoint := q.size(n)
		t.Logf("controller %d: log of %.1f MiB, largest checkpoint of %.1f MiB", i, float64(log)/(1<<20), float64(checkpoint)/(1<<20))
	}
	fakes[0].end()
	for _, n := range q.Controllers {
		n.Stop()
	}
	q.used, q.began = 0, time.Now()
	q.Restart()
	q.report("all stopped and started, listeners open", q.Controllers...)
	q.create(oneTopic("again", 1))
	q.report("the first creation", q.Controllers...)
}

// stepOf begins a step in which another node joins these.
func (q *quorum) stepOf(nodes []*harness.Node) {
	q.used, q.began = 0, time.Now()
	for _, n := range nodes {
		q.used += n.Usage().CPU
	}
}
