//go:build integration

package faults

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// stranger is the id of a broker that no cluster of these tests has.
const stranger = 7777

// registration is what a broker of the node's cluster would send, with the
// features that the node itself has.
func registration(c *conn) *kmsg.BrokerRegistrationRequest {
	c.t.Helper()
	cluster := ask[*kmsg.DescribeClusterResponse](c, 0, kmsg.NewPtrDescribeClusterRequest())
	wantCode(c.t, "DescribeCluster", cluster.ErrorCode, protocol.None)
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "faults", "1"

	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID = stranger, cluster.ClusterID
	_, _ = rand.Read(req.IncarnationID[:])
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Name, listener.Host, listener.Port = "PLAINTEXT", "localhost", 1
	req.Listeners = append(req.Listeners, listener)
	for _, supported := range ask[*kmsg.ApiVersionsResponse](c, 4, versions).SupportedFeatures {
		feature := kmsg.NewBrokerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = supported.Name, supported.MinVersion, supported.MaxVersion
		req.Features = append(req.Features, feature)
	}
	var dir [16]byte
	_, _ = rand.Read(dir[:])
	req.LogDirs = append(req.LogDirs, dir)
	return req
}

// wantStrangerRefused sends a registration and checks that nothing came of it.
func wantStrangerRefused(t *testing.T, n *harness.Node, what string, req *kmsg.BrokerRegistrationRequest, code protocol.Error) {
	t.Helper()
	resp := ask[*kmsg.BrokerRegistrationResponse](dial(t, n.Controller), 4, req)
	wantCode(t, what, resp.ErrorCode, code)
	all := kmsg.NewPtrDescribeClusterRequest()
	all.IncludeFencedBrokers = true
	for _, broker := range ask[*kmsg.DescribeClusterResponse](dial(t, n.Address), 2, all).Brokers {
		if broker.NodeID == stranger {
			t.Errorf("%s: the broker is registered", what)
		}
	}
}

// TestB083BrokerOfAnotherCluster: a broker of another cluster could register.
func TestB083BrokerOfAnotherCluster(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	req := registration(dial(t, n.Address))
	req.ClusterID = "b3RoZXItY2x1c3Rlci1pZA"
	wantStrangerRefused(t, n, "another cluster's id", req, protocol.ErrInconsistentClusterID)
}

// TestB086BrokerWithoutAFeature: a broker could register that lacks a feature
// which is switched on, or has it in other versions only. (Of metadata.version,
// which every broker has, Kafka takes its absence for a malformed request.)
func TestB086BrokerWithoutAFeature(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	without := registration(dial(t, n.Address))
	without.Features = slices.DeleteFunc(without.Features, isFeature("group.version"))
	wantStrangerRefused(t, n, "no group.version", without, protocol.ErrUnsupportedVersion)

	below := registration(dial(t, n.Address))
	feature := &below.Features[slices.IndexFunc(below.Features, isFeature("metadata.version"))]
	feature.MaxSupportedVersion = feature.MinSupportedVersion
	wantStrangerRefused(t, n, "an old metadata.version", below, protocol.ErrUnsupportedVersion)

	below.Features = slices.DeleteFunc(below.Features, isFeature("metadata.version"))
	wantStrangerRefused(t, n, "no metadata.version", below, protocol.ErrInvalidRegistration)
}

func isFeature(name string) func(kmsg.BrokerRegistrationRequestFeature) bool {
	return func(f kmsg.BrokerRegistrationRequestFeature) bool { return f.Name == name }
}
