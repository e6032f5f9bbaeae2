//go:build integration

package metadata

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/metadata/feature"
	metarecord "github.com/klamm/klamm/metadata/record"
)

// dumpLog is what Kafka's dump tool prints of files, by file.
func dumpLog(t *testing.T, paths ...string) map[string]string {
	t.Helper()
	out := run(t, harness.KafkaTools(t), "dump-log", "--cluster-metadata-decoder", "--files", strings.Join(paths, ","))
	dumps := map[string]string{}
	for _, dump := range strings.Split("\n"+out, "\nDumping ")[1:] {
		path, text, _ := strings.Cut(dump, "\n")
		dumps[path] = withoutCauses(t, path, text)
	}
	return dumps
}

var valueSize = regexp.MustCompile(`(?m)^(\| offset: (\d+) .* valueSize: )(\d+)`)

// withoutCauses takes from the sizes of records what klamm's causes add, which the
// tool skips.
func withoutCauses(t *testing.T, path, dump string) string {
	t.Helper()
	causes := map[string]int{}
	eachRecord(t, path, func(e metarecord.Entry) {
		if e.Record == nil || metarecord.CauseOf(e.Record) == "" {
			return
		}
		size := func() int { return len(metarecord.AppendFrame(nil, e.Record, feature.Latest)) }
		whole := size()
		metarecord.SetCause(e.Record, "")
		causes[strconv.FormatInt(e.Offset, 10)] = whole - size()
	})
	return valueSize.ReplaceAllStringFunc(dump, func(line string) string {
		m := valueSize.FindStringSubmatch(line)
		size, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		return m[1] + strconv.Itoa(size-causes[m[2]])
	})
}

// eachRecord calls each with all records of a file of the metadata log.
func eachRecord(t *testing.T, path string, each func(metarecord.Entry)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := metarecord.NewScanner(f); ; {
		b, err := s.Next()
		if err != nil {
			return
		}
		if err := metarecord.Each(b, func(e metarecord.Entry) error {
			each(e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	batchLine  = regexp.MustCompile(`^baseOffset: \d+ lastOffset: \d+ count: \d+ (.*) partitionLeaderEpoch: (\d+) (.*) position: (\d+) CreateTime: -?\d+ size: \d+ (.*) crc: \d+ (.*)$`)
	recordLine = regexp.MustCompile(`^\| offset: (\d+) CreateTime: -?\d+ (.*?)(?: payload: (.*))?$`)
	preamble   = regexp.MustCompile(`^(|Log starting offset: .*|Snapshot end offset: .*)$`)
)

// batch is a record batch as the dump tool prints it.
type batch struct {
	position int64
	epoch    string
	header   string
	entries  []entry
}

// entry is a record: what the tool says of its sizes, and what is in it.
type entry struct{ offset, frame, data string }

var recordType = regexp.MustCompile(`"type":"([A-Z_]+)"`)

func (e entry) kind() string {
	if m := recordType.FindStringSubmatch(e.data); m != nil {
		return m[1]
	}
	return ""
}

// parse reads a dump.
func parse(t *testing.T, dump string) []batch {
	t.Helper()
	var out []batch
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		if m := batchLine.FindStringSubmatch(line); m != nil {
			position, _ := strconv.ParseInt(m[4], 10, 64)
			out = append(out, batch{position: position, epoch: m[2], header: strings.Join([]string{m[1], m[3], m[5], m[6]}, " ")})
			continue
		}
		m := recordLine.FindStringSubmatch(line)
		switch {
		case m != nil && len(out) > 0 && m[3] != "":
			last := &out[len(out)-1]
			last.entries = append(last.entries, entry{m[1], m[2], m[3]})
		case m != nil && len(out) > 0: // of a control batch
			last := &out[len(out)-1]
			last.entries = append(last.entries, entry{m[1], "", m[2]})
		case !preamble.MatchString(line):
			t.Errorf("the dump tool says %q", line)
		}
	}
	return out
}

// namer replaces what no two nodes have in common by names, in the order of
// appearance.
type namer struct {
	n     *node
	names map[string]string
	count map[string]int
}

func newNamer(n *node) *namer {
	return &namer{n: n, names: map[string]string{}, count: map[string]int{}}
}

func (z *namer) name(kind, value string) string {
	key := kind + " " + value
	if _, ok := z.names[key]; !ok {
		z.count[kind]++
		z.names[key] = fmt.Sprintf("<%s %d>", kind, z.count[kind])
	}
	return z.names[key]
}

var (
	// The last of 22 characters holds 2 bits.
	uuids        = regexp.MustCompile(`"[A-Za-z0-9_-]{21}[AQgw]"`)
	reserved     = `"AAAAAAAAAAAAAAAAAAAAA` // an unassigned or lost directory
	brokerEpochs = regexp.MustCompile(`"(brokerEpoch|epoch)":(\d+)`)
	ports        = regexp.MustCompile(`"port":(\d+)`)
	times        = regexp.MustCompile(`"(lastContainedLogTimestamp)":\d+`)
	featureRange = regexp.MustCompile(`\{"name":"[a-z.]+","minSupportedVersion":\d+,"maxSupportedVersion":\d+\}`)
)

// What the tool says of every batch and record of a metadata log, in short.
var usual = strings.NewReplacer(
	"baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 isTransactional: false isControl: false "+
		"deleteHorizonMs: OptionalLong.empty magic: 2 compresscodec: none isvalid: true", "batch",
	"baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 isTransactional: false isControl: true "+
		"deleteHorizonMs: OptionalLong.empty magic: 2 compresscodec: none isvalid: true", "control batch",
	"keySize: -1 valueSize: ", "", "sequence: -1 headerKeys: []", "",
)

// print prints a batch.
func (z *namer) print(b batch) string {
	out := fmt.Sprintf("%s of %s\n", usual.Replace(b.header), z.name("epoch", b.epoch))
	for _, e := range b.entries {
		out += fmt.Sprintf("  %s%s\n", usual.Replace(e.frame), z.entry(e))
	}
	return out
}

// entry replaces ids, ports, times and broker epochs. An epoch that is the
// record's own offset is said to be that.
func (z *namer) entry(e entry) string {
	text := uuids.ReplaceAllStringFunc(e.data, func(id string) string {
		if strings.HasPrefix(id, reserved) {
			return id
		}
		return z.name("id", id)
	})
	text = brokerEpochs.ReplaceAllStringFunc(text, func(pair string) string {
		m := brokerEpochs.FindStringSubmatch(pair)
		known := z.names["broker epoch "+m[2]] != ""
		name := z.name("broker epoch", m[2])
		if m[2] == e.offset && !known {
			name += " (its offset)"
		}
		return fmt.Sprintf("%q:%s", m[1], name)
	})
	text = ports.ReplaceAllStringFunc(text, func(pair string) string {
		switch ports.FindStringSubmatch(pair)[1] {
		case port(z.n.t, z.n.Address):
			return `"port":<broker port>`
		case port(z.n.t, z.n.Controller):
			return `"port":<controller port>`
		}
		return pair
	})
	// Kafka lists features in the order of a hash table.
	if all := featureRange.FindAllString(text, -1); len(all) > 0 {
		slices.Sort(all)
		i := 0
		text = featureRange.ReplaceAllStringFunc(text, func(string) string { i++; return all[i-1] })
	}
	return times.ReplaceAllString(text, `"$1":<time>`)
}

// sortRuns sorts the records of a kind that follow one another where the kind is
// one of those that Kafka writes in the order of its hash tables. Ids that have
// no name yet say nothing.
func (z *namer) sortRuns(entries []entry, kinds ...string) {
	key := func(e entry) string {
		return uuids.ReplaceAllStringFunc(e.data, func(id string) string { return z.names["id "+id] })
	}
	// What belongs to a topic stays with it.
	var units [][]entry
	for _, e := range entries {
		if n := len(units); n > 0 && e.kind() == "PARTITION_RECORD" {
			units[n-1] = append(units[n-1], e)
		} else {
			units = append(units, []entry{e})
		}
	}
	for from := 0; from < len(units); {
		kind := units[from][0].kind()
		to := from + 1
		for slices.Contains(kinds, kind) && to < len(units) && units[to][0].kind() == kind {
			to++
		}
		slices.SortStableFunc(units[from:to], func(a, b []entry) int { return strings.Compare(key(a[0]), key(b[0])) })
		from = to
	}
	copy(entries, slices.Concat(units...))
}

func float(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return f
}
