package api

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/protocol/server"
)

func imageOf(t *testing.T, records ...record.Record) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(metadata.Empty())
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	features := d.Apply(3, 1, 0)
	d = metadata.NewDelta(features) // what comes later is no change of features
	return d.Apply(40, 1, 0)
}

func node(name, host string, port uint16) []record.Endpoint {
	return []record.Endpoint{{Name: name, Host: host, Port: port}}
}

func testEnv(t *testing.T, kind protocol.ListenerKind) Env {
	rack := "r"
	img := imageOf(t,
		&record.FeatureLevel{Name: "metadata.version", Level: 33},
		&record.FeatureLevel{Name: "group.version", Level: 1},
		&record.FeatureLevel{Name: "kraft.version", Level: 0},
		&record.RegisterBroker{BrokerID: 1, BrokerEpoch: 1, Endpoints: node("PLAINTEXT", "h1", 9092), Rack: &rack},
		&record.RegisterBroker{BrokerID: 2, BrokerEpoch: 2, Endpoints: node("PLAINTEXT", "h2", 9092), Fenced: true},
		&record.RegisterBroker{BrokerID: 3, BrokerEpoch: 3, Endpoints: node("OTHER", "h3", 9092)},
		&record.RegisterController{ControllerID: 7, Endpoints: node("CONTROLLER", "h7", 9093)},
		&record.RegisterController{ControllerID: 8, Endpoints: node("CONTROLLER", "h8", 9093)},
	)
	return Env{
		Kind: kind, ClusterID: "cluster", NodeID: 1,
		Image:      func() *metadata.Image { return img },
		Controller: func() protocol.NodeID { return 8 },
	}
}

// seen is what a client of that version sees of a response.
func seen[R kmsg.Response](t *testing.T, resp R) R {
	t.Helper()
	got := resp.RequestKind().ResponseKind()
	got.SetVersion(resp.GetVersion())
	if err := got.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return got.(R)
}

func TestApiVersionsFeatures(t *testing.T) {
	const all = "eligible.leader.replicas.version:0-1 group.version:0-1 kraft.version:0-1 metadata.version:7-33 share.version:0-2 streams.version:0-1 transaction.version:0-2"
	for _, test := range []struct {
		kind                 protocol.ListenerKind
		version              int16
		supported, finalized string
		epoch                int64
	}{
		{protocol.BrokerListener, 0, "", "", -1},
		{protocol.BrokerListener, 2, "", "", -1},
		{protocol.BrokerListener, 3, "metadata.version:7-33", "group.version:1 metadata.version:33", 40},
		{protocol.BrokerListener, 4, all, "group.version:1 metadata.version:33", 40},
		{protocol.BrokerListener, 5, all, "group.version:1 metadata.version:33", 40},
		{protocol.ControllerListener, 5, all, "group.version:1 metadata.version:33", 3},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion, req.NodeID = test.version, "n", "1", -1
		resp := seen(t, apiVersions(testEnv(t, test.kind), []server.VersionRange{{Key: 0, Min: 0, Max: 13}}, req))
		var supported, finalized []string
		for _, f := range resp.SupportedFeatures {
			supported = append(supported, fmt.Sprintf("%s:%d-%d", f.Name, f.MinVersion, f.MaxVersion))
		}
		for _, f := range resp.FinalizedFeatures {
			finalized = append(finalized, fmt.Sprintf("%s:%d", f.Name, f.MaxVersionLevel))
			if f.MinVersionLevel != f.MaxVersionLevel {
				t.Errorf("%s finalized at %d to %d", f.Name, f.MinVersionLevel, f.MaxVersionLevel)
			}
		}
		if got := strings.Join(supported, " "); got != test.supported {
			t.Errorf("%v v%d supports %s", test.kind, test.version, got)
		}
		if got := strings.Join(finalized, " "); got != test.finalized {
			t.Errorf("%v v%d has finalized %s", test.kind, test.version, got)
		}
		if resp.FinalizedFeaturesEpoch != test.epoch || resp.ErrorCode != 0 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].MaxVersion != 13 {
			t.Errorf("%v v%d: got %+v", test.kind, test.version, resp)
		}
	}
}

func TestApiVersionsChecks(t *testing.T) {
	cluster, another := "cluster", "another"
	const none, invalid, bootstrap = protocol.None, protocol.ErrInvalidRequest, protocol.ErrRebootstrapRequired
	for _, test := range []struct {
		version                   int16
		name, software, clusterID string
		node                      int32
		want                      protocol.Error
	}{
		{2, "", "", "", -1, none}, // no names before v3
		{3, "oracle", "1.0", "", -1, none},
		{3, "my client", "1.0", "", -1, invalid},
		{3, "", "", "", -1, invalid},
		{3, "-x", "1", "", -1, invalid},
		{3, "x-", "1", "", -1, invalid},
		{3, "x", "1.", "", -1, invalid},
		{3, "a.b-c", "1.2.3-x", "", -1, none},
		{3, "ü", "1", "", -1, invalid},
		{4, "a", "1", another, 77, none}, // KIP-1242 came with v5
		{5, "a", "1", cluster, 1, none},
		{5, "a", "1", another, 1, bootstrap},
		{5, "a", "1", cluster, 77, bootstrap},
		{5, "a", "1", cluster, -1, invalid},
		{5, "a", "1", "", 77, invalid},
		{5, "a b", "1", another, 1, invalid},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion, req.NodeID = test.version, test.name, test.software, test.node
		if test.clusterID != "" {
			req.ClusterID = &test.clusterID
		}
		resp := seen(t, apiVersions(testEnv(t, protocol.BrokerListener), []server.VersionRange{{Key: 18}}, req))
		if got := protocol.Error(resp.ErrorCode); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
		if resp.ErrorCode != 0 && (len(resp.ApiKeys) > 0 || len(resp.SupportedFeatures) > 0) {
			t.Errorf("%+v: lists apis beside an error", test)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	for _, test := range []struct {
		name    string
		kind    protocol.ListenerKind
		req     kmsg.DescribeClusterRequest
		want    string
		message string
	}{
		{"v0", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 0}, "NONE type=1 cluster controller=1 [1@h1:9092 r]", ""},
		{"operations", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 1, EndpointType: 1, IncludeClusterAuthorizedOperations: true}, "NONE type=1 cluster controller=1 [1@h1:9092 r] operations=8096", ""},
		{"fenced, too early", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 1, EndpointType: 1, IncludeFencedBrokers: true}, "NONE type=1 cluster controller=1 [1@h1:9092 r]", ""},
		{"fenced", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 2, EndpointType: 1, IncludeFencedBrokers: true}, "NONE type=1 cluster controller=1 [1@h1:9092 r 2@h2:9092 fenced]", ""},
		{"controllers of a broker", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 1, EndpointType: 2}, "MISMATCHED_ENDPOINT_TYPE type=1  controller=-1 []", "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"},
		{"no such type", protocol.BrokerListener, kmsg.DescribeClusterRequest{Version: 2, EndpointType: 3}, "UNSUPPORTED_ENDPOINT_TYPE type=1  controller=-1 []", "Unsupported endpoint type 3"},
		{"controllers", protocol.ControllerListener, kmsg.DescribeClusterRequest{Version: 2, EndpointType: 2}, "NONE type=2 cluster controller=8 [7@h7:9093 8@h8:9093]", ""},
		{"brokers of a controller", protocol.ControllerListener, kmsg.DescribeClusterRequest{Version: 1, EndpointType: 1}, "MISMATCHED_ENDPOINT_TYPE type=1  controller=-1 []", "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"},
		{"v0 of a controller", protocol.ControllerListener, kmsg.DescribeClusterRequest{Version: 0}, "INVALID_REQUEST type=1  controller=-1 []", "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"},
	} {
		listener := map[protocol.ListenerKind]string{protocol.BrokerListener: "PLAINTEXT", protocol.ControllerListener: "CONTROLLER"}[test.kind]
		resp := seen(t, describeCluster(testEnv(t, test.kind), listener, &test.req))
		got := fmt.Sprintf("%v type=%d %s controller=%d %v", protocol.Error(resp.ErrorCode), resp.EndpointType, resp.ClusterID, resp.ControllerID, printNodes(resp.Brokers))
		if resp.ClusterAuthorizedOperations != OperationsNotAsked {
			got += fmt.Sprintf(" operations=%d", resp.ClusterAuthorizedOperations)
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
		if (resp.ErrorMessage == nil) != (test.message == "") || resp.ErrorMessage != nil && *resp.ErrorMessage != test.message {
			t.Errorf("%s: got message %v, want %q", test.name, resp.ErrorMessage, test.message)
		}
	}
}

func printNodes(nodes []kmsg.DescribeClusterResponseBroker) []string {
	var out []string
	for _, n := range nodes {
		text := fmt.Sprintf("%d@%s:%d", n.NodeID, n.Host, n.Port)
		if n.Rack != nil {
			text += " " + *n.Rack
		}
		if n.IsFenced {
			text += " fenced"
		}
		out = append(out, text)
	}
	return out
}

// A client that asks a real listener learns of what that serves, and can use it.
func TestOverAListener(t *testing.T) {
	env := testEnv(t, protocol.BrokerListener)
	var software string
	describe := DescribeCluster(env)
	handle := describe.Handle
	describe.Handle = func(ctx context.Context, req *server.Request) server.Answer {
		name, version := req.Conn.ClientSoftware()
		software = name + " " + version
		return handle(ctx, req)
	}
	produce := server.API{Key: 0, Min: 3, Max: 13, Handle: func(context.Context, *server.Request) server.Answer { return server.Answer{None: true} }}
	srv, err := server.New(server.Config{Listener: "PLAINTEXT", Kind: env.Kind}, []server.API{describe, ApiVersions(env), produce}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	defer func() {
		cancel()
		<-served
	}()

	conn, err := client.Dial(ctx, ln.Addr().String(), client.Config{ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion, req.NodeID = "tester", "2.1", -1
	resp, err := conn.Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	var ranges []string
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		ranges = append(ranges, fmt.Sprintf("%d:%d-%d", k.ApiKey, k.MinVersion, k.MaxVersion))
	}
	if want := []string{"0:0-13", "18:0-5", "60:0-2"}; !slices.Equal(ranges, want) {
		t.Errorf("got %v, want %v", ranges, want)
	}
	if _, err := conn.Request(ctx, kmsg.NewPtrDescribeClusterRequest()); err != nil {
		t.Error(err)
	}
	if software != "tester 2.1" {
		t.Errorf("the connection knows the client as %q", software)
	}
}
