//go:build integration

package tools

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The ports stand in tables, so their names are as wide as they are.
const brokerPort, controllerPort = "BPORT", "CPORT"

// variable is what differs from run to run, and what it is replaced by. The
// order matters.
var variable = []struct {
	pattern *regexp.Regexp
	text    string
}{
	// Frames of stack traces, and what the logger puts in front of a line.
	{regexp.MustCompile(`(?m)^\t(at .*|\.\.\. \d+ more)\n`), ""},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} (WARN|ERROR) `), "$1 "},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`(TopicId: |"directoryId": "|"topicId":"|directory id |directoryId=)[0-9A-Za-z_-]{22}`), "${1}ID"},
	{regexp.MustCompile(`(?m)^(\d+ *\t?)[0-9A-Za-z_-]{22}\b`), "${1}DIRECTORYID           "},
	{regexp.MustCompile(`("avg_throughput":)[0-9.E]+`), "${1}N"},
	{regexp.MustCompile(`\b1\d{12}\b`), "TIMESTAMP"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:]\d{3}Z?`), "TIMESTAMP"},
	{regexp.MustCompile(`\bcorrelation id \d+`), "correlation id N"},
	{regexp.MustCompile(`\b(adminclient|producer|consumer)-\d+`), "$1-N"},
	{regexp.MustCompile(`\b(tries=|after )\d+( attempt)?`), "${1}N$2"},
	// A call out of time: the admin client says so in one of two ways, as its
	// last retry was under way or still to be sent.
	{regexp.MustCompile(`Call\(callName=(\w+(?:\(api=\w+\))?),.* timed out at TIMESTAMP after N attempt\(s\)`), "$1 timed out"},
	{regexp.MustCompile(`Timed out waiting for a node assignment\. Call: (\w+(?:\(api=\w+\))?)`), "$1 timed out"},
	{regexp.MustCompile(`\bEpoch: \d+`), "Epoch: N"},
	{regexp.MustCompile(`\bcrc: \d+`), "crc: CRC"},
}

// normal is a result as it stands in a test file, with the lines of each
// stream in order if the tool does not give them one.
func (s *session) normal(res result, sorted bool) string {
	out, errOut := s.replace(res.out), s.replace(res.errOut)
	if sorted {
		out, errOut = sortLines(out), sortLines(errOut)
	}
	if errOut != "" {
		out += "-- standard error\n" + errOut
	}
	if res.code != 0 {
		out += fmt.Sprintf("-- exit code %d\n", res.code)
	}
	return out
}

func (s *session) replace(text string) string {
	if text == "" {
		return ""
	}
	port := func(address string) string { return strings.TrimPrefix(address, "localhost:") }
	names, ports := []string{s.tmp, "TMP"}, make(map[string]string)
	for i, n := range s.nodes {
		at := ""
		if len(s.nodes) > 1 {
			at = strconv.Itoa(i + 1)
		}
		names = append(names, n.Data(), "DATA"+at)
		if n.Address != "" {
			ports[port(n.Address)] = brokerPort[:len(brokerPort)-len(at)] + at
		}
		if n.Controller != "" {
			ports[port(n.Controller)] = controllerPort[:len(controllerPort)-len(at)] + at
		}
	}
	text = strings.NewReplacer(names...).Replace(text)
	// Not within a number: a time may have the digits of a port.
	text = wholeNumber.ReplaceAllStringFunc(text, func(n string) string { return cmp.Or(ports[n], n) })
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.text)
	}
	if len(s.nodes) > 1 {
		text = inSync.ReplaceAllStringFunc(text, sortIDs)
	}
	text = voterSet.ReplaceAllStringFunc(text, func(set string) string {
		keys := replicaKey.FindAllString(set, -1)
		slices.Sort(keys) // Kafka's order is that of a hash table
		return "set of voters [" + strings.Join(keys, ", ") + "]"
	})
	// Blanks at ends of lines would be lost on their way through editors.
	return trailing.ReplaceAllString(text, "·\n")
}

// sortIDs puts those in order who came back into a set as it happened.
func sortIDs(list string) string {
	name, ids, _ := strings.Cut(list, ": ")
	all := strings.Split(ids, ",")
	slices.Sort(all)
	return name + ": " + strings.Join(all, ",")
}

var (
	voterSet   = regexp.MustCompile(`set of voters \[[^\]]*\]`)
	replicaKey = regexp.MustCompile(`ReplicaKey\([^)]*\)`)
	inSync     = regexp.MustCompile(`\bIsr: [\d,]+`)
	trailing   = regexp.MustCompile(`[ \t]+\n`)
	number     = regexp.MustCompile(`-?\d+(\.\d+)?`)
	blanks     = regexp.MustCompile(`[ \t]+`)

	wholeNumber = regexp.MustCompile(`\b\d+\b`)
)

func sortLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// shape is what is left of a text without its numbers and widths.
func shape(text string) string {
	return blanks.ReplaceAllString(number.ReplaceAllString(text, "#"), " ")
}
