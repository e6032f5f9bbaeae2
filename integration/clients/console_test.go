//go:build integration

package clients

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// console is Kafka's console tools, and so its Java clients. Members commit by
// themselves what they printed.
type console struct{}

func (console) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	run(t, nil, harness.KafkaTools(t), "topics", "--bootstrap-server", address, "--create", "--topic", topic, "--partitions", strconv.Itoa(partitions))
}

// null stands for a value that is none, in both directions.
const null = "<none>"

func (console) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	var in strings.Builder
	for _, r := range records {
		value := null
		if r.Value != nil {
			value = *r.Value
		}
		in.WriteString("h:" + r.Header + "\t" + r.Key + "\t" + value + "\n")
	}
	run(t, strings.NewReader(in.String()), harness.KafkaTools(t), "console-producer", "--bootstrap-server", address, "--topic", topic, "--compression-codec", codec,
		"--reader-property", "parse.key=true", "--reader-property", "parse.headers=true", "--reader-property", "null.marker="+null)
}

// format makes the consumer print what fromConsole reads. The topic is not
// among it.
var format = []string{
	"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.key=true",
	"--formatter-property", "print.headers=true", "--formatter-property", "null.literal=" + null,
}

func (console) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	var names []string
	for _, topic := range topics {
		names = append(names, regexp.QuoteMeta(topic))
	}
	out := run(t, nil, harness.KafkaTools(t), append([]string{
		"console-consumer", "--bootstrap-server", address, "--include", strings.Join(names, "|"), "--from-beginning",
		"--max-messages", strconv.Itoa(count), "--timeout-ms", strconv.FormatInt(patience.Milliseconds(), 10),
	}, format...)...)
	var records []record
	for line := range strings.Lines(out) {
		r, ok := fromConsole(strings.TrimSuffix(line, "\n"))
		if !ok {
			t.Fatalf("the console consumer printed %q", clip(line))
		}
		records = append(records, r)
	}
	return records
}

func (console) join(t *testing.T, m membership) member {
	t.Helper()
	args := append([]string{
		"console-consumer", "--bootstrap-server", m.address, "--topic", m.topic, "--group", m.group, "--from-beginning",
		"--command-property", "auto.commit.interval.ms=200", "--command-property", "heartbeat.interval.ms=500",
	}, format...)
	if m.assignor != "" {
		args = append(args, "--command-property", "partition.assignment.strategy="+m.assignor)
	}
	if m.instance != "" {
		args = append(args, "--command-property", "group.instance.id="+m.instance)
	}
	return start(t, m, fromConsole, byTerm, harness.KafkaTools(t), args...)
}

func fromConsole(line string) (record, bool) {
	fields := strings.SplitN(line, "\t", 5)
	if len(fields) != 5 {
		return record{}, false
	}
	partition, err := strconv.ParseInt(strings.TrimPrefix(fields[0], "Partition:"), 10, 32)
	if err != nil {
		return record{}, false
	}
	offset, err := strconv.ParseInt(strings.TrimPrefix(fields[1], "Offset:"), 10, 64)
	if err != nil {
		return record{}, false
	}
	r := record{Partition: int32(partition), Offset: offset, Header: strings.TrimPrefix(fields[2], "h:"), Key: fields[3]}
	if fields[4] != null {
		r.Value = &fields[4]
	}
	return r, true
}
