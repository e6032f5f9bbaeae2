package decide

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// admin runs the commands of administrators.
func (c *cluster) admin(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "grow":
		c.grow(d)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// answer prints one line of an answer.
func (c *cluster) answer(what string, code int16, message *string) {
	fmt.Fprintf(&c.out, "%s: ", what)
	switch {
	case code == 0:
		fmt.Fprintln(&c.out, "done")
	case message == nil:
		fmt.Fprintln(&c.out, protocol.Error(code))
	default:
		fmt.Fprintf(&c.out, "%s: %s\n", protocol.Error(code), *message)
	}
}

// grow takes a topic a line: NAME COUNT [1,2/2,1]; "none" stands for a list
// without any assignment.
func (c *cluster) grow(d *datadriven.TestData) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic = strings.Trim(words[0], `"`)
		n, _ := strconv.Atoi(words[1])
		topic.Count = int32(n)
		if len(words) > 2 {
			topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			if words[2] != "none" {
				for i, part := range strings.Split(words[2], "/") {
					topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{
						Replicas: assignment(i, part).Replicas,
					})
				}
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	records, resp := CreatePartitions(c.img, req, c.env)
	c.apply(records)
	for _, topic := range resp.Topics {
		c.answer(strconv.Quote(topic.Topic), topic.ErrorCode, topic.ErrorMessage)
	}
}
