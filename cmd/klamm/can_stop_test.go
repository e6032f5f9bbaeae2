package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partitions that would suffer without nodes. A partition is LEADER ISR REPLICAS.
func TestWouldSuffer(t *testing.T) {
	for _, tc := range []struct {
		partition string
		min       int
		nodes     []int32
		want      string // "" for nothing
	}{
		{"1 1,2,3 1,2,3", 2, []int32{1}, ""},
		{"1 1,2,3 1,2,3", 2, []int32{2}, ""},
		{"1 1,2,3 1,2,3", 2, []int32{1, 2}, "no acks=all"},
		{"1 1,2,3 1,2,3", 1, []int32{1, 2}, ""},
		{"1 1,2,3 1,2,3", 2, []int32{1, 2, 3}, "offline"},
		{"1 1,2,3 1,2,3", 2, []int32{4}, ""},
		{"1 1,2 1,2,3", 2, []int32{1}, "no acks=all"},
		{"1 1,2 1,2,3", 2, []int32{3}, ""},
		{"1 1 1,2,3", 2, []int32{2}, ""}, // it is refused already
		{"1 1 1,2,3", 2, []int32{1}, "offline"},
		{"1 1 1", 1, []int32{1}, "offline"},
		{"1 1 1", 2, []int32{2}, ""},
		{"1 1,2 1,2", 3, []int32{1}, "no acks=all"}, // no more is asked for than there are replicas
		{"-1 - 1,2,3", 2, []int32{1}, "leaderless"},
		{"-1 3 1,2,3", 1, []int32{3}, "leaderless"},
		{"-1 - 1,2,3", 2, []int32{4}, ""},
	} {
		fields := strings.Fields(tc.partition)
		p := kmsg.NewMetadataResponseTopicPartition()
		if _, err := fmt.Sscan(fields[0], &p.Leader); err != nil {
			t.Fatal(err)
		}
		p.ISR, p.Replicas = ids(t, fields[1]), ids(t, fields[2])
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.Partitions = kmsg.StringPtr("t"), append(topic.Partitions, p)
		var got string
		for _, s := range wouldSuffer([]kmsg.MetadataResponseTopic{topic}, map[string]int{"t": tc.min}, tc.nodes) {
			got = s.Why
		}
		if got != tc.want {
			t.Errorf("%s, of which %d have to be in sync, without %v: %q, want %q", tc.partition, tc.min, tc.nodes, got, tc.want)
		}
	}
}

func ids(t *testing.T, text string) (all []int32) {
	t.Helper()
	for word := range strings.SplitSeq(text, ",") {
		var id int32
		if word == "-" {
			continue
		}
		if _, err := fmt.Sscan(word, &id); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	return all
}

// A voter that has not caught up since the question is not one that is left.
func TestWouldVote(t *testing.T) {
	quorum := &quorumStatus{Leader: 1}
	for node, caughtUp := range map[int32]int64{1: 1600, 2: 1300, 3: 999, 4: -1, 5: 1001} {
		quorum.Voters = append(quorum.Voters, replicaStatus{Node: node, CaughtUpMs: caughtUp})
	}
	for _, tc := range []struct {
		nodes []int32
		want  votersLeft
	}{
		{[]int32{9}, votersLeft{false, 5, 3, 3}},
		{[]int32{1}, votersLeft{true, 5, 2, 3}},
		{[]int32{3, 4}, votersLeft{true, 5, 3, 3}},
	} {
		if got := wouldVote(quorum, 1000, tc.nodes); got != tc.want {
			t.Errorf("without %v: %+v, want %+v", tc.nodes, got, tc.want)
		}
	}
}

// A voter that died before the question, and had caught up until then, is not taken
// for one that follows; one that follows is, as soon as it shows.
func TestVotersWithout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		voter2 []int64 // when voter 2 had caught up, in each answer
		want   votersLeft
	}{
		{"dead", []int64{990}, votersLeft{true, 3, 1, 2}},
		{"alive", []int64{990, 990, 1490}, votersLeft{true, 3, 2, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := int64(1000)
			answer := func() *quorumStatus {
				q := &quorumStatus{Leader: 1, Epoch: 5, Voters: []replicaStatus{
					{Node: 1, CaughtUpMs: now}, {Node: 2, CaughtUpMs: tc.voter2[0]}, {Node: 3, CaughtUpMs: now - 1},
				}}
				if now += 500; len(tc.voter2) > 1 {
					tc.voter2 = tc.voter2[1:]
				}
				return q
			}
			synctest.Test(t, func(t *testing.T) {
				ask := func(context.Context) (*quorumStatus, error) { return answer(), nil }
				got, err := votersWithout(t.Context(), ask, answer(), []int32{3}, time.Now().Add(voterPatience))
				if err != nil || got != tc.want {
					t.Errorf("%+v %v, want %+v", got, err, tc.want)
				}
			})
		})
	}
}
