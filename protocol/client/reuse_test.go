package client_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/protocol/server"
)

// groupOf answers DescribeGroups with a protocol's metadata of as many bytes as the
// name of the group is long, times 100,000.
func groupOf(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	g, m := kmsg.NewDescribeGroupsResponseGroup(), kmsg.NewDescribeGroupsResponseGroupMember()
	name := req.Body.(*kmsg.DescribeGroupsRequest).Groups[0]
	m.ProtocolMetadata = bytes.Repeat([]byte(name), 100_000)
	g.Members = append(g.Members, m)
	resp.Groups = append(resp.Groups, g)
	return server.Answer{Response: resp}
}

func metadataOf(t testing.TB, c *client.Conn, name string) []byte {
	t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{name}
	resp, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.DescribeGroupsResponse).Groups[0].Members[0].ProtocolMetadata
}

func dialReusing(t testing.TB, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), addr, client.Config{ClientID: "test", Reuse: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Large responses take no memory of their own, however different their sizes are.
func TestResponsesShareMemory(t *testing.T) {
	c := dialReusing(t, serve(t, server.API{Key: 15, Min: 0, Max: 5, Handle: groupOf}))
	for _, name := range []string{"a", "bcdefghijklmnopqrstuvwxyz", "AB", "0123456789", "c"} {
		if got, want := metadataOf(t, c, name), bytes.Repeat([]byte(name), 100_000); !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes that are not those of %q", len(got), name)
		}
	}
	first := metadataOf(t, c, "0123456789")
	second := metadataOf(t, c, "abcdefghij")
	if &first[0] != &second[0] {
		t.Error("two responses lie in different memory")
	}
	// Small ones for a while, and the memory of the large one is let go.
	for range 102 {
		second = metadataOf(t, c, "x")
	}
	if &first[0] == &second[0] {
		t.Error("memory is kept for large responses that do not come")
	}
}
