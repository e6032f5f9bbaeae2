package raftlog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// A server's id is its node id in a static quorum, and NODE:DIRECTORY in a dynamic
// one: there a disk that was wiped is another server, of which nobody expects the
// votes and entries of the one that was. A voter keeps the id that it began with,
// also where a static quorum becomes a dynamic one; which directory it means then
// the pins tell.

// serverID is a node's id in a static quorum's Raft configuration. Its server
// address is the same text: where the node is reached is not Raft's business,
// so that a moved voter is the same voter, and a connection is checked against
// whom it was meant for (the library itself checks no target).
func serverID(id protocol.NodeID) raft.ServerID {
	return raft.ServerID(strconv.FormatInt(int64(id), 10))
}

// server is a peer's id in Raft's configuration.
func (p peerID) server() raft.ServerID {
	if p.Directory == protocol.ZeroUUID {
		return serverID(p.Node)
	}
	return serverID(p.Node) + ":" + raft.ServerID(p.Directory.String())
}

// peerOf is the reverse of server; NoNode for anything else.
func peerOf(id raft.ServerID) peerID {
	none := peerID{Node: protocol.NoNode}
	node, directory, dynamic := strings.Cut(string(id), ":")
	n, err := strconv.ParseInt(node, 10, 32)
	if err != nil || n < 0 {
		return none
	}
	p := peerID{Node: protocol.NodeID(n)}
	if dynamic {
		if p.Directory, err = protocol.ParseUUID(directory); err != nil || p.Directory == protocol.ZeroUUID {
			return none
		}
	}
	return p
}

// nodeOf is the node of a server.
func nodeOf(id raft.ServerID) protocol.NodeID { return peerOf(id).Node }

func (v Voter) peer() peerID { return peerID{Node: v.ID, Directory: v.DirectoryID} }

// keyServer holds the id under which this store is a server. A store that lacks
// it is of a time when there were node ids only.
const keyServer = "Server"

// openServer returns the id under which this node votes, and notes it in a new
// store.
func openServer(cfg *Config, logs *logStore) (raft.ServerID, error) {
	raw, err := logs.db.Get([]byte(keyServer))
	switch {
	case err == nil:
		id := raft.ServerID(raw)
		if p := peerOf(id); p.Node != cfg.NodeID || (p.Directory != protocol.ZeroUUID && p.Directory != cfg.DirectoryID) {
			return "", fmt.Errorf("%s is of Raft server %q, but this is node %d, directory %s", boltFile, id, cfg.NodeID, cfg.DirectoryID)
		}
		return id, nil
	case !isNotFound(err):
		return "", fmt.Errorf("raft store: read the server id: %w", err)
	}
	_, err = logs.db.Get([]byte(keyIdentity))
	if err != nil && !isNotFound(err) {
		return "", fmt.Errorf("raft store: read its owner: %w", err)
	}
	id := serverID(cfg.NodeID)
	if isNew := err != nil; isNew && !cfg.static() {
		id = peerID{Node: cfg.NodeID, Directory: cfg.DirectoryID}.server()
	}
	return id, logs.write("set the server id", func() error { return logs.db.Set([]byte(keyServer), []byte(id)) })
}

// keyStore holds the id of this store: raft.db made anew in the same directory, as by
// the same format command on an empty disk, is another, without the votes and entries
// of the first.
const keyStore = "Store"

// openStoreID returns the store's id, which is made with it.
func openStoreID(logs *logStore) (id protocol.UUID, err error) {
	raw, err := logs.db.Get([]byte(keyStore))
	switch {
	case err == nil && len(raw) == len(id):
		return protocol.UUID(raw), nil
	case err == nil:
		return id, fmt.Errorf("raft store: its id has %d bytes", len(raw))
	case !isNotFound(err):
		return id, fmt.Errorf("raft store: read its id: %w", err)
	}
	id = protocol.NewUUID()
	return id, logs.write("set the store's id", func() error { return logs.db.Set([]byte(keyStore), id[:]) })
}

var errLostStore = errors.New(boltFile + " is gone or new, and " + markFile + " tells that there was one: its votes are lost. " +
	"Restore it from a copy, or format another directory and let it join")
