package storage

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/klamm/klamm/config/properties"
	"github.com/klamm/klamm/protocol"
)

const metaPropertiesFile = "meta.properties"

// MetaProperties is the identity of a log directory: whose it is and which.
type MetaProperties struct {
	ClusterID   string
	NodeID      protocol.NodeID
	DirectoryID protocol.UUID // zero: none yet, as in directories of Kafka before 3.7
}

// format writes version 1 as Java properties, in the order of Kafka's format tool.
func (m MetaProperties) format(now time.Time) []byte {
	b := fmt.Appendf(nil, "#\n#%s\n", now.UTC().Format("Mon Jan 02 15:04:05 UTC 2006"))
	b = fmt.Appendf(b, "node.id=%d\n", m.NodeID)
	if m.DirectoryID != protocol.ZeroUUID {
		b = fmt.Appendf(b, "directory.id=%s\n", m.DirectoryID)
	}
	return fmt.Appendf(b, "version=1\ncluster.id=%s\n", m.ClusterID)
}

// parseMetaProperties reads version 1, and version 0 of the ZooKeeper times.
func parseMetaProperties(data []byte) (MetaProperties, error) {
	var m MetaProperties
	list, err := properties.Parse(bytes.NewReader(data))
	if err != nil {
		return m, err
	}
	props := make(map[string]string, len(list))
	for _, p := range list {
		props[p.Key] = p.Value
	}
	nodeKey := "node.id"
	switch version := props["version"]; version {
	case "1":
	case "0":
		nodeKey = "broker.id"
	default:
		return m, fmt.Errorf("version %q is unknown, want 1 or 0", version)
	}
	node, err := strconv.ParseInt(props[nodeKey], 10, 32)
	if err != nil || node < 0 {
		return m, fmt.Errorf("%s is %q, want a number of 0 or more", nodeKey, props[nodeKey])
	}
	m.NodeID = protocol.NodeID(node)
	m.ClusterID = props["cluster.id"]
	if m.ClusterID == "" && nodeKey == "node.id" {
		return m, fmt.Errorf("cluster.id is missing")
	}
	if text, ok := props["directory.id"]; ok {
		if m.DirectoryID, err = protocol.ParseUUID(text); err != nil {
			return m, fmt.Errorf("directory.id: %w", err)
		}
		switch m.DirectoryID {
		case protocol.UnassignedDir, protocol.LostDir, protocol.MigratingDir:
			return m, fmt.Errorf("directory.id %s is reserved", m.DirectoryID)
		}
	}
	return m, nil
}
