//go:build integration

package clients

import (
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// kcat is edenhill/kcat on the librdkafka of the system. It has no command that
// creates a topic: it asks for its metadata, and auto.create.topics.enable does
// it. Its members commit by themselves what they printed, every 5 s: -X takes
// auto.commit.interval.ms for the property of topics of that name, which has no
// effect on groups.
type kcat struct{}

func (kcat) program(t *testing.T) string {
	t.Helper()
	return harness.Need(t, "kcat", "apt-get install kcat")
}

func (k kcat) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	for until := deadline(t, "topic %s with %d partitions", topic, partitions); ; until.wait() {
		out := run(t, nil, k.program(t), "-b", address, "-L", "-t", topic, "-X", "allow.auto.create.topics=true")
		if strings.Contains(out, "topic \""+topic+"\" with "+strconv.Itoa(partitions)+" partitions") {
			return
		}
	}
}

// produce: the header of the command line is the same for all records of a run.
func (k kcat) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	var in strings.Builder
	for _, r := range records {
		in.WriteString(r.Key + "\t")
		if r.Value != nil {
			in.WriteString(*r.Value)
		}
		in.WriteString("\n")
	}
	run(t, strings.NewReader(in.String()), k.program(t), "-b", address, "-P", "-t", topic, "-K", "\t", "-Z", "-z", codec, "-H", "h="+records[0].Header,
		"-X", "acks=all", "-X", "topic.partitioner=murmur2_random")
}

const kcatFormat = `%t\t%p\t%o\t%k\t%h\t%S\t%s\n`

func (k kcat) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	var records []record
	for _, topic := range topics {
		out := run(t, nil, k.program(t), "-q", "-b", address, "-C", "-t", topic, "-o", "beginning", "-e", "-X", "fetch.wait.max.ms=10", "-f", kcatFormat)
		for line := range strings.Lines(out) {
			r, ok := fromKcat(strings.TrimSuffix(line, "\n"))
			if !ok {
				t.Fatalf("kcat printed %q", clip(line))
			}
			records = append(records, r)
		}
	}
	return records
}

func (k kcat) join(t *testing.T, m membership) member {
	t.Helper()
	args := []string{
		"-q", "-u", "-E", "-b", m.address, "-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=500", "-f", kcatFormat,
	}
	if m.assignor != "" {
		args = append(args, "-X", "partition.assignment.strategy="+m.assignor)
	}
	if m.instance != "" {
		args = append(args, "-X", "group.instance.id="+m.instance)
	}
	return start(t, m, fromKcat, byTerm, k.program(t), append(args, "-G", m.group, m.topic)...)
}

func fromKcat(line string) (record, bool) {
	fields := strings.SplitN(line, "\t", 7)
	if len(fields) != 7 {
		return record{}, false
	}
	partition, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil {
		return record{}, false
	}
	offset, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return record{}, false
	}
	r := record{Topic: fields[0], Partition: int32(partition), Offset: offset, Key: fields[3], Header: strings.TrimPrefix(fields[4], "h=")}
	if fields[5] != "-1" { // the length of null
		r.Value = &fields[6]
	}
	return r, true
}
