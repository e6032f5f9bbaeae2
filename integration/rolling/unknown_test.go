//go:build integration

package rolling

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// Whoever has been told that a topic was created finds it at every broker, by name
// and by id, also while a node restarts.
func TestCreatedIsKnownEverywhere(t *testing.T) {
	w := start(t)
	w.created(100, 1, 2, 3)
	w.Node(3).Stop()
	w.created(30, 1, 2)
	w.Node(3).Restart()
	w.created(30, 1, 2, 3)
}

// created creates topics, each at the next of some brokers, and asks the others.
func (w *world) created(count int, at ...int32) {
	w.T.Helper()
	for i := range count {
		name := fmt.Sprint("new-", len(at), "-", i, "-", w.topics)
		w.topics++
		w.CreateAt(at[i%len(at)], name, 1)
		id := w.described(at[i%len(at)], harness.MetadataRequest(name)).TopicID
		byID := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id
		byID.Topics = append(byID.Topics, topic)
		for _, other := range at {
			asked := harness.MetadataRequest(name)
			if i%2 == 1 {
				asked = byID
			}
			if code := protocol.Error(w.described(other, asked).ErrorCode); code != protocol.None {
				w.T.Errorf("%s, created at %d, is at broker %d: %v", name, at[i%len(at)], other, code)
			}
		}
	}
}

// described asks a broker for one topic.
func (w *world) described(at int32, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	w.T.Helper()
	return harness.AskAt[*kmsg.MetadataResponse](w.World, at, req).Topics[0]
}
