package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// Preface is how a Raft peer's connection starts, so that one listener can
// serve Kafka's protocol and Raft: as a frame's size it is negative.
const Preface = "\xcbKLM"

// prefaceVersion is the version of what follows, the hashicorp/raft RPCs included.
const prefaceVersion = 2

// maxPrefaceBytes bounds what a stranger can make us read: the fields below
// with the longest texts.
const maxPrefaceBytes = 1024

// peerID is who a Raft server is: a disk that was wiped comes back with
// another directory id, and must not be taken for the voter it was, whose
// votes and entries it has lost.
type peerID struct {
	Node      protocol.NodeID
	Directory protocol.UUID // zero in hello.Want: any
}

func (p peerID) String() string {
	if p.Directory == protocol.ZeroUUID {
		return fmt.Sprintf("node %d", p.Node)
	}
	return fmt.Sprintf("node %d (directory %s)", p.Node, p.Directory)
}

// hello is what the dialling side says.
//
//	magic            4  Preface
//	version          1
//	length           2  of all that follows
//	cluster id       1 + n
//	caller           4 + 16  node id, directory id
//	wanted           4 + 16  whom the caller means to talk to
//	by directory     1  the caller's server id: 0 = its node id, 1 = that and its directory id
//	store            16  the caller's raft.db
type hello struct {
	Cluster     string
	Caller      peerID
	Want        peerID
	ByDirectory bool
	Store       protocol.UUID
}

// server is the caller's id in Raft.
func (h hello) server() raft.ServerID {
	if h.ByDirectory {
		return h.Caller.server()
	}
	return serverID(h.Caller.Node)
}

// welcome is what the accepting side answers.
//
//	magic            4
//	version          1
//	length           2
//	code             1  0 = welcome, else refused
//	answerer         4 + 16
//	store            16  its raft.db
//	reason           2 + n  for the caller's log
type welcome struct {
	Refused bool
	Who     peerID
	Store   protocol.UUID
	Reason  string
}

var errPreface = errors.New("malformed Raft preface")

// versionError tells a preface of another version, whose body is not read.
type versionError uint8

func (v versionError) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the Raft preface, this node version %d", uint8(v), prefaceVersion)
}

func appendPeer(b []byte, p peerID) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.Node))
	return append(b, p.Directory[:]...)
}

// framed puts magic, version and length before body.
func framed(body []byte) []byte {
	b := append([]byte(Preface), prefaceVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

func (h hello) encode() []byte {
	body := append([]byte{byte(len(h.Cluster))}, h.Cluster...)
	body = appendPeer(appendPeer(body, h.Caller), h.Want)
	var by byte
	if h.ByDirectory {
		by = 1
	}
	return framed(append(append(body, by), h.Store[:]...))
}

func (w welcome) encode() []byte {
	reason := w.Reason
	if len(reason) > maxPrefaceBytes/2 {
		reason = reason[:maxPrefaceBytes/2]
	}
	var code byte
	if w.Refused {
		code = 1
	}
	body := append(appendPeer([]byte{code}, w.Who), w.Store[:]...)
	body = binary.BigEndian.AppendUint16(body, uint16(len(reason)))
	return framed(append(body, reason...))
}

// readMagic reads the start of a preface.
func readMagic(r io.Reader) error {
	var magic [len(Preface)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return fmt.Errorf("read the Raft preface: %w", err)
	}
	if string(magic[:]) != Preface {
		return fmt.Errorf("%w: it starts with %x", errPreface, magic)
	}
	return nil
}

// readBody reads what follows the magic and no byte more, since Raft's RPCs
// come next.
func readBody(r io.Reader) ([]byte, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read the Raft preface: %w", err)
	}
	n := binary.BigEndian.Uint16(head[1:])
	if n > maxPrefaceBytes {
		return nil, fmt.Errorf("%w: %d bytes", errPreface, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read the Raft preface: %w", err)
	}
	if head[0] != prefaceVersion {
		return nil, versionError(head[0])
	}
	return body, nil
}

// cut is a cursor over a preface's body; bad is set at the first short read.
type cut struct {
	b   []byte
	bad bool
}

func (c *cut) next(n int) []byte {
	if len(c.b) < n {
		c.bad = true
		return make([]byte, n)
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cut) peer() peerID {
	p := peerID{Node: protocol.NodeID(binary.BigEndian.Uint32(c.next(4)))}
	copy(p.Directory[:], c.next(16))
	return p
}

// readHello reads a hello whose magic has been read.
func readHello(r io.Reader) (hello, error) {
	body, err := readBody(r)
	if err != nil {
		return hello{}, err
	}
	c := cut{b: body}
	var h hello
	h.Cluster = string(c.next(int(c.next(1)[0])))
	h.Caller = c.peer()
	h.Want = c.peer()
	h.ByDirectory = c.next(1)[0] != 0
	copy(h.Store[:], c.next(16))
	if c.bad || len(c.b) > 0 {
		return hello{}, errPreface
	}
	return h, nil
}

// readWelcome reads a whole welcome.
func readWelcome(r io.Reader) (welcome, error) {
	if err := readMagic(r); err != nil {
		return welcome{}, err
	}
	body, err := readBody(r)
	if err != nil {
		return welcome{}, err
	}
	c := cut{b: body}
	var w welcome
	w.Refused = c.next(1)[0] != 0
	w.Who = c.peer()
	copy(w.Store[:], c.next(16))
	w.Reason = string(c.next(int(binary.BigEndian.Uint16(c.next(2)))))
	if c.bad || len(c.b) > 0 {
		return welcome{}, errPreface
	}
	return w, nil
}
