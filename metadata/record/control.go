package record

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/klamm/klamm/protocol"
)

// Control is a control record of the metadata log or of a checkpoint: a pointer
// to one of the structs below. Its record's key is int16 version (0) and int16
// type, its value the fields in the same encoding as a Record's, without frame.
type Control interface {
	// Type is the type in the key (ControlRecordType.java).
	Type() int16
	walk(v visitor, version int16)
}

// Types of control records.
const (
	typeLeaderChange   = 2
	typeSnapshotHeader = 3
	typeSnapshotFooter = 4
	typeKRaftVersion   = 5
	typeVoters         = 6
)

// LeaderChange is the first record of every leader's epoch.
type LeaderChange struct {
	LeaderID       protocol.NodeID
	Voters         []protocol.NodeID
	GrantingVoters []protocol.NodeID // who voted for the leader
}

// SnapshotHeader opens a checkpoint.
type SnapshotHeader struct {
	LastContainedLogTimestampMs int64
}

// SnapshotFooter ends a checkpoint. A checkpoint without it is not whole.
type SnapshotFooter struct{}

// KRaftVersion finalizes kraft.version: 0 static quorum, 1 dynamic (KIP-853).
type KRaftVersion struct {
	Version int16
}

// Voters is the whole voter set of a dynamic quorum.
type Voters struct {
	Voters []Voter
}

// Voter is one member of a dynamic quorum.
type Voter struct {
	ID          protocol.NodeID
	DirectoryID protocol.UUID
	Endpoints   []VoterEndpoint
	MinKRaft    int16 // range of kraft.version that it supports
	MaxKRaft    int16
}

// VoterEndpoint is where a voter listens.
type VoterEndpoint struct {
	Name string
	Host string
	Port uint16
}

// Address is the endpoint's HOST:PORT.
func (e VoterEndpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Type of LeaderChangeMessage.
func (r *LeaderChange) Type() int16 { return typeLeaderChange }

// walk describes version 0, the only one that Kafka 4.4 writes and reads, in a
// dynamic quorum too; version 1 (with directory ids) exists in its schema only.
func (r *LeaderChange) walk(v visitor, version int16) {
	v.int16("version", &version)
	node(v, "leaderId", &r.LeaderID)
	voters := func(name string, ids *[]protocol.NodeID) {
		list(v, name, ids, func(id *protocol.NodeID) {
			node(v, "voterId", id)
			v.end()
		})
	}
	voters("voters", &r.Voters)
	voters("grantingVoters", &r.GrantingVoters)
	v.end()
}

// Type of SnapshotHeaderRecord.
func (r *SnapshotHeader) Type() int16 { return typeSnapshotHeader }

func (r *SnapshotHeader) walk(v visitor, version int16) {
	v.int16("version", &version)
	v.int64("lastContainedLogTimestamp", &r.LastContainedLogTimestampMs)
	v.end()
}

// Type of SnapshotFooterRecord.
func (r *SnapshotFooter) Type() int16 { return typeSnapshotFooter }

func (r *SnapshotFooter) walk(v visitor, version int16) {
	v.int16("version", &version)
	v.end()
}

// Type of KRaftVersionRecord.
func (r *KRaftVersion) Type() int16 { return typeKRaftVersion }

func (r *KRaftVersion) walk(v visitor, version int16) {
	v.int16("version", &version)
	v.int16("kRaftVersion", &r.Version)
	v.end()
}

// Type of VotersRecord.
func (r *Voters) Type() int16 { return typeVoters }

func (r *Voters) walk(v visitor, version int16) {
	v.int16("version", &version)
	list(v, "voters", &r.Voters, func(e *Voter) {
		node(v, "voterId", &e.ID)
		v.uuid("voterDirectoryId", &e.DirectoryID)
		list(v, "endpoints", &e.Endpoints, func(p *VoterEndpoint) {
			v.string("name", &p.Name)
			v.string("host", &p.Host)
			v.uint16("port", &p.Port)
			v.end()
		})
		v.structure("kRaftVersionFeature", func() {
			v.int16("minSupportedVersion", &e.MinKRaft)
			v.int16("maxSupportedVersion", &e.MaxKRaft)
			v.end()
		})
		v.end()
	})
	v.end()
}

// ControlName is the record's type as Kafka's tools print it.
func ControlName(c Control) string {
	switch c.Type() {
	case typeLeaderChange:
		return "LeaderChange"
	case typeSnapshotHeader:
		return "SnapshotHeader"
	case typeSnapshotFooter:
		return "SnapshotFooter"
	case typeKRaftVersion:
		return "KRaftVersion"
	}
	return "KRaftVoters"
}

func newControl(kind int16) (Control, bool) {
	switch kind {
	case typeLeaderChange:
		return &LeaderChange{}, true
	case typeSnapshotHeader:
		return &SnapshotHeader{}, true
	case typeSnapshotFooter:
		return &SnapshotFooter{}, true
	case typeKRaftVersion:
		return &KRaftVersion{}, true
	case typeVoters:
		return &Voters{}, true
	}
	return nil, false
}

// AppendControl appends key and value of a control record.
func AppendControl(key, value []byte, c Control) (k, v []byte) {
	key = binary.BigEndian.AppendUint16(key, 0)
	key = binary.BigEndian.AppendUint16(key, uint16(c.Type()))
	w := writer{buf: value}
	c.walk(&w, 0)
	return key, w.buf
}

// ReadControl reads what AppendControl wrote, here or in Kafka.
func ReadControl(key, value []byte) (Control, error) {
	if len(key) != 4 {
		return nil, fmt.Errorf("control record: the key has %d bytes, not 4", len(key))
	}
	if version := binary.BigEndian.Uint16(key); version != 0 {
		return nil, fmt.Errorf("control record: key version %d is unknown, 0 is known", version)
	}
	kind := int16(binary.BigEndian.Uint16(key[2:]))
	c, ok := newControl(kind)
	if !ok {
		return nil, fmt.Errorf("control record: type %d is none of a metadata log", kind)
	}
	if len(value) >= 2 {
		if version := binary.BigEndian.Uint16(value); version != 0 {
			return nil, fmt.Errorf("control record: version %d of %s is unknown, 0 is known", version, ControlName(c))
		}
	}
	r := newReader(value)
	c.walk(r, 0)
	if r.err == nil && r.at != len(value) {
		r.fail("%d bytes are left over", len(value)-r.at)
	}
	if r.err != nil {
		return nil, fmt.Errorf("control record: %s: %w", ControlName(c), r.err)
	}
	return c, nil
}
