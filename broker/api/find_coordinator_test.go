package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// The codes are those of Kafka 4.4 while its internal topics do not exist.
func TestFindCoordinator(t *testing.T) {
	const (
		wait    = protocol.ErrCoordinatorNotAvailable
		invalid = protocol.ErrInvalidRequest
		share   = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
	)
	for _, test := range []struct {
		version int16
		kind    int8
		key     string
		code    protocol.Error
		text    string
	}{
		{0, 5, "g", wait, "null"}, // v0 has groups only
		{1, 0, "g", wait, notAvailableText},
		{3, 1, "t", wait, notAvailableText},
		{3, 0, "", wait, notAvailableText},
		{1, 3, "g", invalid, shared.InvalidRequestText},
		{3, 2, share, invalid, shared.InvalidRequestText},
		{4, 0, "g", wait, ""},
		{4, 1, "t", wait, ""},
		{6, 0, "ü", wait, ""},
		{4, 3, "g", invalid, shared.InvalidRequestText},
		{4, -1, "g", invalid, shared.InvalidRequestText},
		{4, 127, "g", invalid, shared.InvalidRequestText},
		{5, 2, share, invalid, ""}, // share groups came with v6
		{6, 2, share, wait, ""},
		{6, 2, "g", invalid, ""},
		{6, 2, "g:zz:0", invalid, ""},
		{6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:-1", wait, ""},
		{6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:x", invalid, ""},
		{6, 2, ":AAAAAAAAAAAAAAAAAAAAAQ:0", invalid, ""},
	} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = test.version, test.kind, test.key, []string{test.key}
		resp := (&Admin{Image: imageFunc(metadata.Empty())}).coordinators(req, "PLAINTEXT")
		seen := kmsg.NewPtrFindCoordinatorResponse()
		seen.Version = resp.Version
		if err := seen.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		code, text, node, port := seen.ErrorCode, seen.ErrorMessage, seen.NodeID, seen.Port
		if test.version >= 4 {
			c := seen.Coordinators[0]
			code, text, node, port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Port
			if c.Key != test.key || len(seen.Coordinators) != 1 {
				t.Errorf("v%d: got %+v", test.version, seen.Coordinators)
			}
		}
		got := "null"
		if text != nil {
			got = *text
		}
		if protocol.Error(code) != test.code || got != test.text || node != -1 || port != -1 {
			t.Errorf("v%d type %d %q: got %v %q at %d:%d, want %v %q", test.version, test.kind, test.key, protocol.Error(code), got, node, port, test.code, test.text)
		}
	}
}

func TestFindCoordinatorAnswersEveryKey(t *testing.T) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{"a", "b", "a"}
	a := &Admin{Image: imageFunc(metadata.Empty())}
	if n := len(a.coordinators(req, "PLAINTEXT").Coordinators); n != 3 {
		t.Errorf("%d answers to 3 keys", n)
	}
	req.CoordinatorKeys = nil
	if n := len(a.coordinators(req, "PLAINTEXT").Coordinators); n != 0 {
		t.Errorf("%d answers to no key", n)
	}
}

type ids struct {
	next int64
	err  error
}

func (i *ids) Next(context.Context) (int64, error) {
	if i.err != nil {
		return -1, i.err
	}
	i.next++
	return i.next, nil
}

func TestInitProducerID(t *testing.T) {
	empty, name := "", "t"
	for _, test := range []struct {
		version int16
		txn     *string
		id      int64
		epoch   int16
		err     error
		want    string
	}{
		{0, nil, 0, 0, nil, "NONE 1 0"},
		{2, nil, 5, -1, nil, "NONE 1 0"}, // no such fields before v3
		{3, nil, -1, -1, nil, "NONE 1 0"},
		{5, nil, 5, 3, nil, "NONE 1 0"},
		{3, nil, -1, 3, nil, "INVALID_REQUEST -1 -1"},
		{3, nil, 5, -1, nil, "INVALID_REQUEST -1 -1"},
		{4, &empty, -1, -1, nil, "INVALID_REQUEST -1 -1"},
		{4, &name, -1, -1, nil, "COORDINATOR_NOT_AVAILABLE -1 -1"},
		{5, &name, 5, -1, nil, "INVALID_REQUEST -1 -1"},
		{4, nil, -1, -1, fmt.Errorf("wrapped: %w", protocol.ErrCoordinatorLoadInProgress), "COORDINATOR_LOAD_IN_PROGRESS -1 -1"},
	} {
		a := &Admin{ProducerIDs: &ids{err: test.err}, Log: zerolog.Nop()}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = test.version, test.txn, test.id, test.epoch
		resp := ask(t.Context(), a.initProducerID, req).(*kmsg.InitProducerIDResponse)
		if got := fmt.Sprint(protocol.Error(resp.ErrorCode), resp.ProducerID, resp.ProducerEpoch); got != test.want || resp.Version != test.version {
			t.Errorf("v%d: got %s, want %s", test.version, got, test.want)
		}
	}
}
