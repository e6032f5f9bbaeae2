package feature

// Names of features that code asks for.
const (
	MetadataVersion = "metadata.version"
	KRaftVersion    = "kraft.version"
	ELR             = "eligible.leader.replicas.version"
	Group           = "group.version"
	Share           = "share.version"
	Streams         = "streams.version"
	Transaction     = "transaction.version"
)

// Feature is one feature with the levels that this build works with.
type Feature struct {
	Name     string
	Min, Max int16
	// since[n] is the release that finalizes level n+1 on its own, where that is
	// the highest that it does.
	since []Level
	// needs[n] is the level of metadata.version without which level n+1 cannot
	// be; 0 = none.
	needs []Level
}

// all by name.
var all = []Feature{
	{Name: ELR, Max: 1, since: []Level{26}, needs: []Level{23}},
	{Name: Group, Max: 1, since: []Level{22}},
	{Name: KRaftVersion, Max: 1, since: []Level{21}},
	{Name: MetadataVersion, Min: int16(Oldest), Max: int16(Latest)},
	{Name: Share, Max: 2, since: []Level{28, 31}},
	{Name: Streams, Max: 1, since: []Level{29}},
	{Name: Transaction, Max: 2, since: []Level{24, 24}},
}

// All returns the features by name. It must not be modified.
func All() []Feature { return all }

// Find returns a feature.
func Find(name string) (Feature, bool) {
	for _, f := range all {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}

// Default is the level that a cluster has that begins at a release.
func (f Feature) Default(at Level) int16 {
	if f.Name == MetadataVersion {
		return int16(at)
	}
	level := int16(0)
	for i, since := range f.since {
		if at >= since {
			level = int16(i + 1)
		}
	}
	return level
}

// Needs is the level of metadata.version without which a level of the feature
// cannot be, since older nodes would not know its records; 0 = none.
func (f Feature) Needs(level int16) Level {
	if level < 1 || int(level) > len(f.needs) {
		return 0
	}
	return f.needs[level-1]
}
