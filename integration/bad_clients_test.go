//go:build integration

package integration

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// allowFiles lets this process open n files, and the test be skipped where the
// system does not.
func allowFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur, limit.Max = n, max(n, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skipf("this needs %d open files: %v", n, err)
	}
}

// wantMemory checks what the node's memory has grown by.
func wantMemory(t *testing.T, n *harness.Node, before, most int64) {
	t.Helper()
	after := n.Usage().RSS
	t.Logf("resident memory went from %d to %d MiB", before>>20, after>>20)
	if after > before+most {
		t.Errorf("resident memory went from %d to %d MiB", before>>20, after>>20)
	}
}

// drop closes a connection without leaving its port in use.
func drop(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// TestManyConnections: five thousand at once are all answered, cost little, and
// hold up nobody.
func TestManyConnections(t *testing.T) {
	const conns = 5000
	allowFiles(t, 2*conns+500)
	n := harness.Start(t)
	createTopic(t, n.Address, "beside", 1)
	w := newWriter(t, n.Address, "beside", 1)
	w.waitForMore(t, 1000)
	before := n.Usage().RSS

	all := make([]net.Conn, conns)
	var dialers sync.WaitGroup
	for i := range 50 {
		dialers.Go(func() {
			for k := i; k < conns; k += 50 {
				conn, err := net.DialTimeout("tcp", n.Address, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				all[k] = conn
				if _, err := roundTrip(conn, apiVersions, time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	dialers.Wait()
	if t.Failed() {
		return
	}
	w.waitWithin(t, 1000, time.Minute)
	wantMemory(t, n, before, conns*(24<<10))
	for _, conn := range all {
		if _, err := roundTrip(conn, apiVersions, time.Minute); err != nil {
			t.Fatal(err)
		}
		drop(conn)
	}
	w.waitForMore(t, 1000)
	w.stop(t)
	n.Stop()
}

// TestConnectionPerRequest: so does a client that connects for each request.
func TestConnectionPerRequest(t *testing.T) {
	const requests = 20_000
	n := harness.Start(t)
	createTopic(t, n.Address, "beside", 1)
	w := newWriter(t, n.Address, "beside", 1)
	w.waitForMore(t, 1000)
	before := n.Usage().RSS
	for i := range requests {
		conn, err := net.DialTimeout("tcp", n.Address, time.Minute)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%4 > 0 {
			_, err = roundTrip(conn, apiVersions, time.Minute)
		} else {
			_, err = conn.Write(apiVersions[:i%len(apiVersions)]) // and goes away
		}
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		drop(conn)
	}
	wantMemory(t, n, before, 32<<20)
	w.waitWithin(t, 1000, time.Minute)
	w.stop(t)
	n.Stop()
}

// TestClientsThatDoNotRead: ask for much by the thousand and read nothing, or a
// byte now and then, or send a byte now and then. Nobody else notices.
func TestClientsThatDoNotRead(t *testing.T) {
	allowFiles(t, 2000)
	n := harness.Start(t)
	createTopic(t, n.Address, "beside", 1)
	for i := range 30 { // to be large in Metadata
		createTopic(t, n.Address, fmt.Sprintf("topic-%s-%d", strings.Repeat("x", 150), i), 1)
	}
	w := newWriter(t, n.Address, "beside", 1)
	w.waitForMore(t, 10_000)
	before := n.Usage().RSS

	metadata := request(3, 1, 0xff, 0xff, 0xff, 0xff)     // of all topics
	fetch := request(1, 4, fetchAll("beside", 50<<20)...) // of all records
	flood := func(conn net.Conn, request []byte) {
		var pipeline []byte
		for range 10_000 {
			pipeline = append(pipeline, request...)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		_, _ = conn.Write(pipeline) // as much as is taken
	}
	var clients sync.WaitGroup
	stop := make(chan struct{})
	each := func(count int, do func(conn net.Conn)) {
		for range count {
			conn := dial(t, n.Address)
			clients.Go(func() {
				defer drop(conn)
				do(conn)
				<-stop
			})
		}
	}
	every := func(d time.Duration, do func() error) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if do() != nil {
					return
				}
			}
		}
	}
	each(100, func(conn net.Conn) { flood(conn, metadata) })
	each(100, func(conn net.Conn) { flood(conn, fetch) })
	each(200, func(conn net.Conn) { // slow readers
		_, _ = conn.Write(fetch)
		buf := make([]byte, 1)
		every(50*time.Millisecond, func() error { _, err := conn.Read(buf); return err })
	})
	each(500, func(conn net.Conn) { // slow senders
		slow := frame(make([]byte, 1<<20))
		every(50*time.Millisecond, func() error {
			_, err := conn.Write(slow[:1])
			slow = slow[1:]
			return err
		})
	})
	each(100, func(net.Conn) {}) // and those that say nothing

	for range 5 {
		w.waitWithin(t, 1000, time.Minute)
		awaitAnswer(t, n.Address)
		wantMemory(t, n, before, 256<<20) // 64 MiB are for frames that have begun, and garbage
		time.Sleep(time.Second)
	}
	close(stop)
	clients.Wait()
	w.waitForMore(t, 1000)
	w.stop(t)
	n.Stop()
}

// fetchAll is the body of a Fetch v4 of a topic's first partition.
func fetchAll(topic string, bytes uint32) []byte {
	body := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1} // replica, max wait, min bytes
	body = binary.BigEndian.AppendUint32(body, bytes)
	body = append(body, 0, 0, 0, 0, 1) // isolation, one topic
	body = binary.BigEndian.AppendUint16(body, uint16(len(topic)))
	body = append(append(body, topic...), 0, 0, 0, 1, 0, 0, 0, 0) // one partition, 0
	body = append(body, 0, 0, 0, 0, 0, 0, 0, 0)                   // from offset 0
	return binary.BigEndian.AppendUint32(body, bytes)
}

// TestLogIsNotFlooded: clients that send rubbish by the thousand fill no disk.
func TestLogIsNotFlooded(t *testing.T) {
	n := harness.Start(t)
	for i := range 3000 {
		conn := dial(t, n.Address)
		rubbish := request(3, 1, 0, 0, 0, 5, 0, 9)
		if i%2 == 0 {
			rubbish = request(999, 0)
		}
		if _, err := conn.Write(rubbish); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		drop(conn)
	}
	log := n.Log()
	if lines := strings.Count(log, "cannot be read"); lines == 0 || lines > 100 {
		t.Errorf("%d lines about 3000 bad requests", lines)
	}
	n.Stop()
}

// TestConnectionLimits: what server.properties allows is let in, one more is not,
// and there is room again once somebody leaves.
func TestConnectionLimits(t *testing.T) {
	const most = 8
	for _, setting := range []string{"max.connections=8", "max.connections.per.ip=8", "listener.name.plaintext.max.connections=8"} {
		t.Run(setting, func(t *testing.T) {
			n := harness.Start(t, setting)
			var conns []net.Conn
			for deadline := time.Now().Add(time.Minute); len(conns) < most; {
				conn := dial(t, n.Address)
				// Those that waited for the start may not have left yet.
				if _, err := roundTrip(conn, apiVersions, 10*time.Second); err == nil {
					conns = append(conns, conn)
				} else if time.Now().After(deadline) {
					t.Fatalf("%d of %d were let in: %v", len(conns), most, err)
				}
			}
			wantClosedAtOnce(t, n.Address)
			for i, conn := range conns {
				if _, err := roundTrip(conn, apiVersions, 10*time.Second); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
			drop(conns[0])
			awaitAnswer(t, n.Address)
			n.Stop()
		})
	}
}

// awaitAnswer waits until a new client is answered.
func awaitAnswer(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !answers(address); {
		if time.Now().After(deadline) {
			t.Fatal("nobody else is answered")
		}
	}
}

func wantClosedAtOnce(t *testing.T, address string) {
	t.Helper()
	conn := dial(t, address)
	if _, err := roundTrip(conn, apiVersions, 10*time.Second); err == nil {
		t.Error("one more connection was let in")
	}
}
