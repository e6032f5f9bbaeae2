//go:build integration

package faults

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// TestB168UnknownApiVersions: ApiVersions in a version that the server did not
// know was answered in a format that the client could not read, or by closing
// the connection. The answer is in version 0, with what a client needs to ask
// again.
func TestB168UnknownApiVersions(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	for _, address := range []string{n.Address, n.Controller} {
		c := dial(t, address)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "faults", "1"
		c.send(99, req)
		body, err := c.receiveBody()
		if err != nil {
			t.Fatal(err)
		}
		var resp kmsg.ApiVersionsResponse // version 0
		if err := resp.ReadFrom(body); err != nil {
			t.Fatalf("the answer is not in version 0: %v\n% x", err, body)
		}
		wantCode(t, "ApiVersions v99", resp.ErrorCode, protocol.ErrUnsupportedVersion)
		listed := false
		for _, key := range resp.ApiKeys {
			listed = listed || key.ApiKey == req.Key() && key.MinVersion == 0 && key.MaxVersion >= 3
		}
		if !listed {
			t.Errorf("the answer does not list ApiVersions: %+v", resp.ApiKeys)
		}
		wantCode(t, "ApiVersions v0", ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest()).ErrorCode, protocol.None)
		// Flexible in its body, never in its header.
		wantCode(t, "ApiVersions v3", ask[*kmsg.ApiVersionsResponse](c, 3, req).ErrorCode, protocol.None)
	}
}

// TestB170TopicIDs: versions that name topics by id were listed while Metadata
// had no ids. Every topic has one, internal ones too, and it can be read by.
func TestB170TopicIDs(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	mustProduce(c, topic, "a", "b")
	versions := map[int16]int16{}
	for _, key := range ask[*kmsg.ApiVersionsResponse](c, 0, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		versions[key.ApiKey] = key.MaxVersion
	}
	if versions[0] < 13 || versions[1] < 13 {
		t.Fatalf("Produce up to v%d, Fetch up to v%d: the versions with ids are missing", versions[0], versions[1])
	}
	req := kmsg.NewPtrMetadataRequest() // of all topics
	req.Topics = nil
	all := ask[*kmsg.MetadataResponse](c, 12, req).Topics
	for _, topic := range all {
		if topic.TopicID == ([16]byte{}) {
			t.Errorf("%s has no id", text(topic.Topic))
		}
	}
	id := metadata(c, topic).TopicID

	byID := fetchRequest("", fetchPartition(0))
	byID.Topics[0].TopicID = id
	fetched := ask[*kmsg.FetchResponse](c, 13, byID).Topics[0]
	wantCode(t, "Fetch v13", fetched.Partitions[0].ErrorCode, protocol.None)
	if got := offsetsOf(t, fetched.Partitions[0].RecordBatches); fetched.TopicID != id || len(got) != 2 {
		t.Errorf("Fetch v13: topic %x, records at %v", fetched.TopicID, got)
	}
}
