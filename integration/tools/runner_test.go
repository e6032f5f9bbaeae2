//go:build integration

package tools

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// mains are the tools by the names of their scripts, without "kafka-" and
// ".sh".
var mains = map[string]string{
	"acls":                     "AclCommand",
	"broker-api-versions":      "BrokerApiVersionsCommand",
	"client-metrics":           "ClientMetricsCommand",
	"cluster":                  "ClusterTool",
	"configs":                  "ConfigCommand",
	"console-consumer":         "consumer.ConsoleConsumer",
	"console-producer":         "ConsoleProducer",
	"console-share-consumer":   "consumer.ConsoleShareConsumer",
	"consumer-groups":          "consumer.group.ConsumerGroupCommand",
	"consumer-perf-test":       "ConsumerPerformance",
	"delegation-tokens":        "DelegationTokenCommand",
	"delete-records":           "DeleteRecordsCommand",
	"dump-log":                 "DumpLogSegments",
	"e2e-latency":              "EndToEndLatency",
	"features":                 "FeatureCommand",
	"get-offsets":              "GetOffsetShell",
	"groups":                   "GroupsCommand",
	"leader-election":          "LeaderElectionCommand",
	"log-dirs":                 "LogDirsCommand",
	"metadata-quorum":          "MetadataQuorumCommand",
	"producer-perf-test":       "ProducerPerformance",
	"reassign-partitions":      "reassign.ReassignPartitionsCommand",
	"replica-verification":     "ReplicaVerificationTool",
	"share-consumer-perf-test": "ShareConsumerPerformance",
	"share-groups":             "consumer.group.ShareGroupCommand",
	"streams-groups":           "streams.StreamsGroupCommand",
	"topics":                   "TopicCommand",
	"transactions":             "TransactionsCommand",
	"verifiable-consumer":      "VerifiableConsumer",
	"verifiable-producer":      "VerifiableProducer",
}

// result is how a tool ended.
type result struct {
	code        int32
	out, errOut string
}

// runner is the JVM of Runner.java.
type runner struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   bytes.Buffer  // what the JVM itself says, complete once done is closed
	done  chan struct{} // closed when the JVM has ended

	mu      sync.Mutex
	next    int32
	waiting map[int32]chan result // of size 1; closed without a result if the JVM ends
}

func newRunner(launcher string) (*runner, error) {
	r := &runner{cmd: exec.Command(launcher, "java", "--add-opens=java.base/java.lang=ALL-UNNAMED", "Runner.java"), done: make(chan struct{}), waiting: make(map[int32]chan result)}
	r.cmd.Stderr = &r.log
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go r.read(bufio.NewReader(stdout))
	return r, nil
}

// close ends the JVM.
func (r *runner) close() {
	_ = r.stdin.Close()
	<-r.done
}

// read hands results to those who wait for them, until the JVM ends.
func (r *runner) read(from io.Reader) {
	defer close(r.done)
	for {
		id, res, err := readResult(from)
		r.mu.Lock()
		if err != nil {
			for id, wait := range r.waiting {
				close(wait)
				delete(r.waiting, id)
			}
			r.waiting = nil
			r.mu.Unlock()
			_ = r.cmd.Wait()
			return
		}
		r.waiting[id] <- res
		delete(r.waiting, id)
		r.mu.Unlock()
	}
}

func readResult(from io.Reader) (int32, result, error) {
	var head struct{ ID, Code int32 }
	if err := binary.Read(from, binary.BigEndian, &head); err != nil {
		return 0, result{}, err
	}
	var texts [2]string
	for i := range texts {
		var size int32
		if err := binary.Read(from, binary.BigEndian, &size); err != nil {
			return 0, result{}, err
		}
		text := make([]byte, size)
		if _, err := io.ReadFull(from, text); err != nil {
			return 0, result{}, err
		}
		texts[i] = string(text)
	}
	return head.ID, result{code: head.Code, out: texts[0], errOut: texts[1]}, nil
}

// start starts a tool. The channel gets its result, or is closed if the JVM
// ends before.
func (r *runner) start(tool string, args []string, stdin string) (int32, <-chan result, error) {
	class, ok := mains[tool]
	if !ok {
		return 0, nil, fmt.Errorf("no tool %q", tool)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		<-r.done
		return 0, nil, fmt.Errorf("the JVM has ended\n%s", r.log.String())
	}
	r.next++
	id, wait := r.next, make(chan result, 1)
	r.waiting[id] = wait
	return id, wait, r.request(id, "org.apache.kafka.tools."+class, args, stdin)
}

// interrupt ends a tool as SIGTERM does.
func (r *runner) interrupt(id int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.request(id, "", nil, "")
}

func (r *runner) request(id int32, class string, args []string, stdin string) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(id))
	text := func(s string) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	text(class)
	b = binary.BigEndian.AppendUint32(b, uint32(len(args)))
	for _, arg := range args {
		text(arg)
	}
	text(stdin)
	_, err := r.stdin.Write(b)
	return err
}
