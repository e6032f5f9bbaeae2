package storage

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
	props, err := parseProperties(string(data))
	if err != nil {
		return m, err
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

// parseProperties reads Java properties: comments from # or !, the key up to
// the first =, : or blank, a backslash before any of them (or an escape), and
// at the end of a line to go on with the next.
func parseProperties(text string) (map[string]string, error) {
	props := map[string]string{}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for trailingBackslashes(line)%2 == 1 {
			line = line[:len(line)-1]
			if i++; i == len(lines) {
				break
			}
			line += strings.TrimLeft(lines[i], " \t\f")
		}
		end := keyEnd(line)
		value := strings.TrimLeft(line[end:], " \t\f")
		if value != "" && (value[0] == '=' || value[0] == ':') {
			value = strings.TrimLeft(value[1:], " \t\f")
		}
		key, err := unescape(line[:end])
		if err != nil {
			return nil, err
		}
		if props[key], err = unescape(value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return props, nil
}

func trailingBackslashes(s string) int { return len(s) - len(strings.TrimRight(s, `\`)) }

// keyEnd returns the position behind the key: its first unescaped separator.
func keyEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':', ' ', '\t', '\f':
			return i
		}
	}
	return len(line)
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", fmt.Errorf("escape %q ends early", s[i-1:])
			}
			code, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf("escape %q is no \\u and four digits", s[i-1:i+5])
			}
			out.WriteRune(rune(code))
			i += 4
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), nil
}
