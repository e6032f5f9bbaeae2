package node

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

const keyDeleteTopics = 20

// aTopicID stands in requests for the id of the topic "t".
var aTopicID = protocol.UUID{0xf0, 0x0d, 0xf0, 0x0d, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}

// FuzzRequests gives a whole node the bodies of requests, of every API in every
// version, on both listeners: they are decoded, handled and answered as any
// client's. The node goes on, logs no error, and what it answers can be decoded.
func FuzzRequests(f *testing.F) {
	for _, kind := range []protocol.ListenerKind{protocol.BrokerListener, protocol.ControllerListener} {
		for _, info := range protocol.APIs() {
			if !info.On.Has(kind) {
				continue
			}
			for version := info.Min; version <= info.Max; version++ {
				for _, req := range samples(info.Key, version) {
					f.Add(kind == protocol.ControllerListener, info.Key, version, req.AppendTo(nil))
				}
			}
		}
	}
	w := startWorld(f)
	w.ask(f, protocol.BrokerListener, findCoordinator("g"))
	id := w.topic(f, "t")
	count := 0
	f.Fuzz(func(t *testing.T, controller bool, key, version int16, body []byte) {
		kind := protocol.BrokerListener
		if controller {
			kind = protocol.ControllerListener
		}
		body = bytes.ReplaceAll(body, aTopicID[:], id[:])
		if isCostly(key, version, body) {
			t.Skip("it asks for much work, and would get it: the search would stand still")
		}
		if count++; count%500 == 0 {
			w.sweep(t)
			id = w.topic(t, "t")
		}
		w.try(t, kind, key, version, body)
		if key == keyDeleteTopics {
			id = w.topic(t, "t")
		}
		for _, line := range w.takeErrors() {
			t.Errorf("key %d version %d: %s", key, version, line)
		}
	})
}

// try sends a request, and an ApiVersions behind it that tells when it has been
// dealt with, and looks at what comes back.
func (w *world) try(t *testing.T, kind protocol.ListenerKind, key, version int16, request []byte) {
	nc, err := net.Dial("tcp", w.address(kind))
	if err != nil {
		t.Fatalf("the node is gone: %v", err)
	}
	defer nc.Close()
	_, err = nc.Write(append(frame(key, version, 1, request), frame(protocol.KeyAPIVersions, 0, 2, nil)...))
	check(t, err)
	// What waits for longer, until its time is over or somebody else comes, is
	// left alone: half-closing ends it.
	check(t, nc.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	answer, err := readFrame(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		check(t, nc.(*net.TCPConn).CloseWrite())
		check(t, nc.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("key %d version %d: the connection does not end", key, version)
		}
		return
	}
	if err != nil || bytes.HasPrefix(answer, []byte{0, 0, 0, 2}) {
		return // closed, or there is no answer
	}
	resp := kmsg.ResponseForKey(key)
	resp.SetVersion(version)
	rest, err := body(key, version, answer)
	if err == nil {
		err = resp.ReadFrom(rest)
	}
	if info, _ := protocol.API(key); err != nil && version >= info.Min && version <= info.Max {
		t.Fatalf("key %d version %d: answer % x: %v", key, version, answer, err)
	}
}

// isCostly tells of requests that do much work, as they ask to.
func isCostly(key, version int16, body []byte) bool {
	info, ok := protocol.API(key)
	if !ok || version < info.Min || version > info.Max {
		return false
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.ReadFrom(body) != nil {
		return false
	}
	const most = 10
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		partitions := 0
		for _, t := range r.Topics {
			partitions += max(1, int(t.NumPartitions), len(t.ReplicaAssignment))
		}
		return partitions > most
	case *kmsg.CreatePartitionsRequest:
		for _, t := range r.Topics {
			if t.Count > most {
				return true
			}
		}
	case *kmsg.MetadataRequest:
		return len(r.Topics) > most && r.AllowAutoTopicCreation
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.UnregisterBrokerRequest, *kmsg.UpdateFeaturesRequest:
		// Of the one broker there is: it would be fenced, or stop.
		return true
	case *kmsg.EnvelopeRequest:
		return true // FuzzEnvelope of controller/api
	}
	return false
}

// sweep deletes all topics but the coordinator's, and the configs of the node.
func (w *world) sweep(t *testing.T) {
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TimeoutMillis = 6, 10_000
	for _, topic := range w.topics(t) {
		if !topic.IsInternal {
			d := kmsg.NewDeleteTopicsRequestTopic()
			d.TopicID = topic.TopicID
			del.Topics = append(del.Topics, d)
		}
	}
	w.ask(t, protocol.BrokerListener, del)
	for _, name := range []string{"", "1"} {
		alter := kmsg.NewPtrAlterConfigsRequest()
		alter.Version = 2
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, name
		alter.Resources = append(alter.Resources, r)
		w.ask(t, protocol.BrokerListener, alter)
	}
	w.takeErrors()
}

func findCoordinator(group string) kmsg.Request {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 6, []string{group}
	return req
}

// samples are requests of a version: one that says nothing, and some that have
// something in every field, with few and many items.
func samples(key, version int16) []kmsg.Request {
	var all []kmsg.Request
	for variant := range 5 {
		req := kmsg.RequestForKey(key)
		if variant > 0 {
			fill(reflect.ValueOf(req).Elem(), "", variant)
		} else if d, ok := req.(interface{ Default() }); ok {
			d.Default()
		}
		req.SetVersion(version)
		all = append(all, req)
	}
	return all
}

// resourceTypes are those of a config by variant: topic, broker, its logger, group.
var resourceTypes = []int64{0, 2, 4, 8, 32}

// fill gives every field a value that could be meant.
func fill(v reflect.Value, name string, variant int) {
	items := 1 + variant%2
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(name, p) {
				return true
			}
		}
		return false
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), v.Type().Field(i).Name, variant)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, variant)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(sampleBytes(name))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), items, items))
		for i := range items {
			fill(v.Index(i), name, variant)
		}
	case reflect.Array:
		reflect.Copy(v, reflect.ValueOf(aTopicID))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		switch {
		case has("Group", "CoordinatorKey"):
			v.SetString("g")
		case has("ProtocolType"):
			v.SetString("consumer")
		case has("Mechanism"):
			v.SetString("SCRAM-SHA-256")
		case has("ResourceName") && resourceTypes[variant] != resourceTypes[1], has("Value"):
			v.SetString("1")
		case has("ConfigNames", "Configs"):
			v.SetString("retention.ms")
		default:
			v.SetString("t")
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		switch {
		case has("Timeout"):
			v.SetInt(10_000 % (1 << (v.Type().Bits() - 1)))
		case has("MaxBytes", "PartitionMaxBytes"):
			v.SetInt(1 << 20)
		case has("Epoch", "Generation", "SessionID", "ReplicaID"):
			v.SetInt(-int64(variant % 2))
		case has("ResourceType"):
			v.SetInt(resourceTypes[variant])
		case has("Count"):
			v.SetInt(2)
		case has("MaxWait"):
			v.SetInt(int64(variant % 2))
		case has("Partition", "Offset", "Index", "Sequence", "Timestamp"):
			v.SetInt(0)
		default:
			v.SetInt(1)
		}
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	}
}

func sampleBytes(name string) []byte {
	switch name {
	case "Records":
		b := batch.NewBuilder(batch.Options{Codec: batch.CodecLZ4})
		b.Append(batch.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
		built, err := b.Build()
		if err != nil {
			panic(err)
		}
		return built
	case "Metadata":
		m := kmsg.NewConsumerMemberMetadata()
		m.Topics = []string{"t"}
		return m.AppendTo(nil)
	case "MemberAssignment":
		m := kmsg.NewConsumerMemberAssignment()
		m.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{0}}}
		return m.AppendTo(nil)
	}
	return []byte("bytes")
}
