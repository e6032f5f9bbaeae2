package raftlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

func TestPrefaceIsNoFrame(t *testing.T) {
	if int32(uint32(Preface[0])<<24) >= 0 {
		t.Error("as a frame's size the preface is not negative")
	}
}

// Golden bytes, kept for good: version 2. Version 1 lacked the last field.
func TestPrefaceGolden(t *testing.T) {
	h := hello{
		Cluster: "abc",
		Caller:  peerID{1, protocol.UUID{1, 2}},
		Want:    peerID{2, protocol.UUID{3, 4}},

		ByDirectory: true,
		Store:       protocol.UUID{5, 6},
	}
	w := welcome{Refused: true, Who: peerID{2, protocol.UUID{3, 4}}, Store: protocol.UUID{7, 8}, Reason: "no"}
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"hello", h.encode(), "cb4b4c4d" + "02" + "003d" + "03616263" +
			"00000001" + "01020000000000000000000000000000" + "00000002" + "03040000000000000000000000000000" + "01" + "05060000000000000000000000000000"},
		{"welcome", w.encode(), "cb4b4c4d" + "02" + "0029" + "01" + "00000002" + "03040000000000000000000000000000" +
			"07080000000000000000000000000000" + "00026e6f"},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
	rest := bytes.NewReader(append(h.encode()[len(Preface):], "RPCs"...))
	if got, err := readHello(rest); err != nil || got != h || rest.Len() != len("RPCs") {
		t.Errorf("readHello: %+v, %v, %d bytes left", got, err, rest.Len())
	}
	if got, err := readWelcome(bytes.NewReader(w.encode())); err != nil || got != w {
		t.Errorf("readWelcome: %+v, %v", got, err)
	}
	if w.Reason = strings.Repeat("x", 5000); len(w.encode()) > maxPrefaceBytes {
		t.Errorf("a long reason makes %d bytes", len(w.encode()))
	}
}

func TestPrefaceMalformed(t *testing.T) {
	good := hello{Cluster: "abc"}.encode()[len(Preface):]
	for name, raw := range map[string][]byte{
		"nothing":   {},
		"short":     good[:len(good)-1],
		"too large": {2, 0xff, 0xff},
		"longer":    append([]byte{2, 0, 62}, append(good[3:], 0)...),
		"bad field": append([]byte{2, 0, 61, 200}, good[4:]...),
	} {
		if h, err := readHello(bytes.NewReader(raw)); err == nil {
			t.Errorf("%s: read %+v", name, h)
		}
	}
	other := append([]byte{1}, good[1:]...)
	var v versionError
	if _, err := readHello(bytes.NewReader(other)); !errors.As(err, &v) || v != 1 {
		t.Errorf("version 1: %v", err)
	}
}

func FuzzPreface(f *testing.F) {
	f.Add(hello{Cluster: "abc", Caller: peerID{Node: 1}}.encode())
	f.Add(welcome{Reason: "no"}.encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= len(Preface) {
			if h, err := readHello(bytes.NewReader(raw[len(Preface):])); err == nil && !bytes.HasPrefix(raw[len(Preface):], h.encode()[len(Preface):]) {
				t.Errorf("%x reads as %+v", raw, h)
			}
		}
		if w, err := readWelcome(bytes.NewReader(raw)); err == nil && len(w.Reason) > maxPrefaceBytes {
			t.Errorf("a reason of %d bytes", len(w.Reason))
		}
	})
}

// side is one node's streams, which others dial under its listener's address.
type side struct {
	*streams
	ln     net.Listener
	logged *lockedBuffer
}

func newSide(t *testing.T, node protocol.NodeID, dir protocol.UUID, cluster string, db database) *side {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &side{ln: ln, logged: &lockedBuffer{}}
	cfg := Config{NodeID: node, DirectoryID: dir, ClusterID: cluster, Logger: zerolog.New(s.logged)}
	cfg.setDefaults()
	if db == nil {
		db = newFakeDB()
	}
	pins, err := openPins(newLogStore(db, cfg.StoreTimeout, newFailure()), []Voter{{ID: 1}, {ID: 2}})
	if err != nil {
		t.Fatal(err)
	}
	known := &voters{configured: []Voter{{ID: 1, Endpoint: ln.Addr().String()}, {ID: 2, Endpoint: ln.Addr().String()}}}
	s.streams = newStreams(&cfg, serverID(node), known, pins)
	s.store, s.streams.member = protocol.UUID{byte(node), 'd', 'b'}, func(raft.ServerID) (member, votes bool) { return true, true }
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := readMagic(conn); err != nil {
					_ = conn.Close()
					return
				}
				s.take(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		_ = s.Close()
	})
	return s
}

// listensAt has a node be found where another side listens.
func (s *side) listensAt(id protocol.NodeID, where *side) {
	s.voters.configured = append([]Voter{{ID: id, Endpoint: where.ln.Addr().String()}}, s.voters.configured...)
}

func TestGreeting(t *testing.T) {
	a, b := protocol.UUID{0xa}, protocol.UUID{0xb}
	for _, tt := range []struct {
		name    string
		cluster string
		target  protocol.NodeID // whom the caller means to find where node 2 is
		caller  peerID
		pinned  protocol.UUID // what the caller knows of the target
		known   protocol.UUID // what node 2 knows of the caller
		want    string        // in the error of one and the log of the other
	}{
		{name: "welcome", cluster: "c", target: 2, caller: peerID{1, a}},
		{name: "welcome again", cluster: "c", target: 2, caller: peerID{1, a}, pinned: b, known: a},
		{name: "another cluster", cluster: "d", target: 2, caller: peerID{1, a}, want: `of cluster \"d\"`},
		{name: "another node", cluster: "c", target: 3, caller: peerID{1, a}, want: "looks for node 3"},
		{name: "a wiped target", cluster: "c", target: 2, caller: peerID{1, a}, pinned: protocol.UUID{0xcc}, want: "may not take a voter's place"},
		{name: "a wiped caller", cluster: "c", target: 2, caller: peerID{1, a}, known: protocol.UUID{0xcc}, want: "may not take a voter's place"},
		{name: "no voter", cluster: "c", target: 2, caller: peerID{9, a}, want: "not among the voters"},
		{name: "itself", cluster: "c", target: 2, caller: peerID{2, b}, want: "by this node's id"},
		{name: "no directory", cluster: "c", target: 2, caller: peerID{1, protocol.ZeroUUID}, want: "no directory id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newSide(t, 2, b, "c", nil)
			server.pins.seen[1] = tt.known
			if tt.known == protocol.ZeroUUID {
				delete(server.pins.seen, 1)
			}
			caller := newSide(t, tt.caller.Node, tt.caller.Directory, tt.cluster, nil)
			caller.listensAt(tt.target, server)
			if tt.pinned != protocol.ZeroUUID {
				caller.pins.seen[tt.target] = tt.pinned
			}
			accepted := make(chan net.Conn, 1)
			go func() {
				if c, err := server.Accept(); err == nil {
					accepted <- c
				}
			}()
			conn, err := caller.Dial(address2(tt.target), rpcTimeout)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				other := <-accepted
				// Nothing of what follows the preface was swallowed.
				if _, err := conn.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				var got [1]byte
				if _, err := other.Read(got[:]); err != nil || got[0] != 'x' {
					t.Errorf("read %q, %v", got, err)
				}
				if server.pins.of(1) != a || caller.pins.of(2) != b {
					t.Error("the directory ids were not pinned")
				}
				_ = other.Close()
				_ = conn.Close()
				return
			}
			if err == nil {
				t.Fatal("was let in")
			}
			plain := strings.ReplaceAll(tt.want, `\`, "")
			if !strings.Contains(err.Error(), plain) {
				t.Errorf("the caller is told %q, want %q", err, plain)
			}
			_ = server.Close()
			server.wait() // take has logged
			if log := server.logged.String(); !strings.Contains(log, tt.want) {
				t.Errorf("logged %q, want %q", log, tt.want)
			}
		})
	}
}

// TestImpostor answers for another node than the caller looks for, and says so
// too late to be refused.
func TestImpostor(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  peerID
		want string
	}{
		{"another node", peerID{7, protocol.UUID{7}}, "this is node 7"},
		{"another disk", peerID{2, protocol.UUID{7}}, "may not take a voter's place"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := net.Pipe()
			go func() {
				_ = readMagic(there)
				_, _ = readHello(there)
				_, _ = there.Write(welcome{Who: tt.who}.encode())
			}()
			s := newSide(t, 1, protocol.UUID{1}, "c", nil)
			s.pins.seen[2] = protocol.UUID{2}
			err := s.introduce(within5(t), here, peerID{Node: 2})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("introduce: %v, want %q", err, tt.want)
			}
		})
	}
}

// TestGreetingByDirectory has servers meet whose ids name their directories: a disk
// that was wiped is another server, and one that nobody has heard of is let in.
func TestGreetingByDirectory(t *testing.T) {
	a, b, wiped := protocol.UUID{0xa}, protocol.UUID{0xb}, protocol.UUID{0xc}
	for _, tt := range []struct {
		name   string
		caller peerID
		plain  bool // the caller's server id is its node id
		target peerID
		want   string
	}{
		{name: "welcome", caller: peerID{1, a}, target: peerID{2, b}},
		{name: "unheard of", caller: peerID{9, wiped}, target: peerID{2, b}},
		{name: "another disk of a voter", caller: peerID{1, wiped}, target: peerID{2, b}},
		{name: "another disk in a voter's name", caller: peerID{1, wiped}, plain: true, target: peerID{2, b}, want: "may not take a voter's place"},
		{name: "a wiped target", caller: peerID{1, a}, target: peerID{2, wiped}, want: "may not take a voter's place"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newSide(t, 2, b, "c", nil)
			server.voters.configured = []Voter{{ID: 1, DirectoryID: a, Endpoint: "x:1"}, {ID: 2, DirectoryID: b, Endpoint: "x:2"}}
			server.own = peerID{2, b}.server()
			server.pins.seen[1] = a
			caller := newSide(t, tt.caller.Node, tt.caller.Directory, "c", nil)
			caller.voters.configured = []Voter{{ID: 2, DirectoryID: tt.target.Directory, Endpoint: server.ln.Addr().String()}}
			if !tt.plain {
				caller.own = tt.caller.server()
			}
			go func() {
				if c, err := server.Accept(); err == nil {
					_ = c.Close()
				}
			}()
			conn, err := caller.Dial(raft.ServerAddress(tt.target.server()), rpcTimeout)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("dialled: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestServerIDs(t *testing.T) {
	for _, p := range []peerID{{0, protocol.ZeroUUID}, {7, protocol.ZeroUUID}, {7, protocol.UUID{1, 2, 0xfb}}} {
		if got := peerOf(p.server()); got != p {
			t.Errorf("%s is read back as %s", p.server(), got)
		}
	}
	for _, id := range []raft.ServerID{"", "x", "-1", "1:", "1:x", "1:AAAAAAAAAAAAAAAAAAAAAA", "99999999999"} {
		if got := peerOf(id); got.Node != protocol.NoNode {
			t.Errorf("%q is read as %s", id, got)
		}
	}
}

// TestStore has a voter come with a raft.db made anew in a directory of the same id: by
// the very format command of the first. It is refused on either side, until it votes no
// more.
func TestStore(t *testing.T) {
	a, b := protocol.UUID{0xa}, protocol.UUID{0xb}
	server := newSide(t, 2, b, "c", nil)
	server.own = peerID{2, b}.server()
	meet := func(callerStore, serverStore protocol.UUID, votes bool) error {
		for _, s := range []*side{server} {
			s.streams.member = func(raft.ServerID) (bool, bool) { return true, votes }
			s.voters.configured = []Voter{{ID: 1, DirectoryID: a, Endpoint: "x:1"}, {ID: 2, DirectoryID: b, Endpoint: "x:2"}}
		}
		server.store = serverStore
		caller := newSide(t, 1, a, "c", nil)
		caller.own, caller.store = peerID{1, a}.server(), callerStore
		caller.voters.configured = []Voter{{ID: 2, DirectoryID: b, Endpoint: server.ln.Addr().String()}}
		caller.streams.member = func(raft.ServerID) (bool, bool) { return true, votes }
		if err := caller.pins.checkStore(peerID{2, b}.server(), protocol.UUID{2, 'd', 'b'}, true, false); err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := server.Accept(); err == nil {
				_ = c.Close()
			}
		}()
		conn, err := caller.Dial(raft.ServerAddress(peerID{2, b}.server()), rpcTimeout)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	first, anew := protocol.UUID{1, 'd', 'b'}, protocol.UUID{9, 'd', 'b'}
	for range 2 {
		if err := meet(first, protocol.UUID{2, 'd', 'b'}, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := meet(anew, protocol.UUID{2, 'd', 'b'}, true); err == nil || !strings.Contains(err.Error(), "voter 1:") {
		t.Errorf("the wiped caller: %v", err)
	}
	if err := meet(first, anew, true); err == nil || !strings.Contains(err.Error(), "voter 2:") {
		t.Errorf("the wiped target: %v", err)
	}
	if err := meet(anew, protocol.UUID{2, 'd', 'b'}, false); err != nil {
		t.Errorf("one without a vote: %v", err)
	}
	if err := meet(first, protocol.UUID{2, 'd', 'b'}, true); err == nil {
		t.Error("the first store came back and was let in")
	}
}

// TestStrangersLeaveNothing has servers call that are no members, as anybody can who
// knows the cluster id: they are let in, to be heard of, and nothing is written.
func TestStrangersLeaveNothing(t *testing.T) {
	b, db := protocol.UUID{0xb}, newFakeDB()
	server := newSide(t, 2, b, "c", db)
	server.own = peerID{2, b}.server()
	server.voters.configured = []Voter{{ID: 2, DirectoryID: b, Endpoint: "x:2"}}
	server.streams.member = func(raft.ServerID) (bool, bool) { return false, false }
	for i := range 10 {
		h := hello{
			Cluster: "c", Caller: peerID{7, protocol.UUID{1, byte(i)}}, Want: peerID{2, b},
			ByDirectory: true, Store: protocol.UUID{byte(i), 'd', 'b'},
		}
		if err := server.judge(h); err != nil {
			t.Error(err)
		}
	}
	if len(db.writes) > 0 {
		t.Errorf("written: %q", db.writes)
	}
}
