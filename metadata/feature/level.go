package feature

import (
	"fmt"
	"strings"
)

// Level is a level of metadata.version.
type Level int16

// The levels that this build works with. Kafka 4 knows none below.
const (
	Oldest Level = 7  // 3.3-IV3
	Latest Level = 33 // 4.4-IV2
)

// release is what one level of metadata.version brought.
type release struct {
	name string
	// changed: records changed with it, so the way down to a lower level may
	// lose some of what they say.
	changed bool
}

// releases are the levels from Oldest on.
var releases = [...]release{
	{"3.3-IV3", true},
	{"3.4-IV0", true},
	{"3.5-IV0", false},
	{"3.5-IV1", false},
	{"3.5-IV2", true},
	{"3.6-IV0", false},
	{"3.6-IV1", true},
	{"3.6-IV2", true},
	{"3.7-IV0", true},
	{"3.7-IV1", false},
	{"3.7-IV2", true},
	{"3.7-IV3", false},
	{"3.7-IV4", false},
	{"3.8-IV0", false},
	{"3.9-IV0", false},
	{"4.0-IV0", false},
	{"4.0-IV1", true},
	{"4.0-IV2", false},
	{"4.0-IV3", false},
	{"4.1-IV0", false},
	{"4.1-IV1", false},
	{"4.2-IV0", false},
	{"4.2-IV1", false},
	{"4.3-IV0", true},
	{"4.4-IV0", false},
	{"4.4-IV1", true},
	{"4.4-IV2", true},
}

// Valid tells whether this build works with the level.
func (l Level) Valid() bool { return l >= Oldest && l <= Latest }

// String is the release that the level stands for, 4.4-IV2 for one.
func (l Level) String() string {
	if !l.Valid() {
		return fmt.Sprintf("level %d", int16(l))
	}
	return releases[l-Oldest].name
}

// ParseRelease finds the level of a release: 4.3-IV0, or 4.3 or 4.3.1 for the
// last level of a release.
func ParseRelease(name string) (Level, bool) {
	if parts := strings.Split(name, "."); len(parts) > 2 {
		name = parts[0] + "." + parts[1]
	}
	for l := Latest; l >= Oldest; l-- {
		release := l.String()
		if base, _, _ := strings.Cut(release, "-"); name == release || name == base {
			return l, true
		}
	}
	return 0, false
}

// Releases are the names that ParseRelease knows, the oldest first.
func Releases() []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.name)
	}
	return names
}

// LosesOnWayTo tells whether records changed between the level and a lower one.
func (l Level) LosesOnWayTo(lower Level) bool {
	for ; l > lower; l-- {
		if releases[l-Oldest].changed {
			return true
		}
	}
	return false
}

// HasMigratingBrokers: a broker says whether it comes from ZooKeeper (3.4).
func (l Level) HasMigratingBrokers() bool { return l >= 8 }

// HasScram: SCRAM credentials (3.5).
func (l Level) HasScram() bool { return l >= 11 }

// HasTransactions: many batches that count as one (3.6, KIP-868).
func (l Level) HasTransactions() bool { return l >= 13 }

// HasControllerRegistration: controllers register (3.7, KIP-919).
func (l Level) HasControllerRegistration() bool { return l >= 15 }

// HasDirectories: replicas and brokers name log directories (3.7, KIP-858).
func (l Level) HasDirectories() bool { return l >= 17 }

// HasELR: partitions keep eligible leader replicas (4.0, KIP-966).
func (l Level) HasELR() bool { return l >= 23 }

// HasCordonedDirs: brokers name directories that take no new replicas (4.3).
func (l Level) HasCordonedDirs() bool { return l >= 30 }

// HasControllerUnregistration: registrations of controllers go away (4.4).
func (l Level) HasControllerUnregistration() bool { return l >= 33 }
