package decide

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Progress is what the active controller knows of a broker's session: offsets
// that the broker must have replayed before it may go on.
type Progress struct {
	// Registered is the offset of the broker's registration record: a broker
	// that has it has everything that was so when it came.
	Registered int64
	// ShutDown is the offset of the last record of its controlled shutdown so far; it
	// means nothing while there is none.
	ShutDown int64
	// Leaving is what it has still to hand over; nil: it is looked for anew.
	Leaving *Leaving
}

// Heartbeat decides what a heartbeat changes. Directories that have gone out of
// service come before the broker's state:
//
//	state          wants               becomes
//	fenced         shut down           fenced, may go
//	fenced         unfence, caught up  unfenced
//	unfenced       fence               fenced
//	unfenced       shut down           shutting down; with nothing to hand over fenced, may go
//	shutting down  shut down           fenced, may go, once it has replayed the hand-over of all
func Heartbeat(img *metadata.Image, req *kmsg.BrokerHeartbeatRequest, progress Progress, env Env) ([]record.Record, *kmsg.BrokerHeartbeatResponse, error) {
	id := protocol.NodeID(req.BrokerID)
	b, err := checkBrokerEpoch(img, id, protocol.BrokerEpoch(req.BrokerEpoch))
	if err != nil {
		return nil, nil, err
	}
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.IsCaughtUp = req.CurrentMetadataOffset >= progress.Registered
	resp.IsFenced = b.Fenced
	// What it asks for is decided by what is left of it: at its next heartbeat.
	if records := loseDirs(img, b, req, env); len(records) > 0 {
		return records, resp, nil
	}
	var records []record.Record

	switch {
	case b.Fenced && req.WantShutdown:
		resp.ShouldShutdown = true

	case b.Fenced:
		if !req.WantFence && resp.IsCaughtUp {
			records = append(records, fencing(b, -1))
			records = because(append(records, electLeaderless(img, env, id)...), ofBroker(id, "caught up with the metadata"))
			resp.IsFenced = false
		}

	case b.InControlledShutdown:
		if req.CurrentMetadataOffset < progress.ShutDown {
			break
		}
		// What was too much to be handed over at once comes first, and what an office
		// has left that ended in the midst of it.
		if records, _ = leaveISRs(img, env, id, false, progress.Leaving); len(records) == 0 {
			records = append(records, fencing(b, 1))
			resp.IsFenced, resp.ShouldShutdown = true, true
		}
		records = because(records, ofBroker(id, shutdown))

	case req.WantFence:
		var more bool // for the next heartbeat
		records, more = Fence(img, id, "asked to be fenced", env, progress.Leaving)
		resp.IsFenced, resp.ShouldShutdown = !more, req.WantShutdown && !more

	case req.WantShutdown:
		moves, _ := leaveISRs(img, env, id, false, progress.Leaving)
		if len(moves) == 0 {
			records = because([]record.Record{fencing(b, 1)}, ofBroker(id, shutdown))
			resp.IsFenced, resp.ShouldShutdown = true, true
			break
		}
		records = append(records, &record.BrokerRegistrationChange{
			BrokerID: id, BrokerEpoch: b.Epoch, InControlledShutdown: 1,
		})
		records = because(append(records, moves...), ofBroker(id, shutdown))
	}
	return append(records, cordon(img, b, req)...), resp, nil
}

// cordon takes note of directories that get no new replicas (Kafka 4.3).
func cordon(img *metadata.Image, b *metadata.Broker, req *kmsg.BrokerHeartbeatRequest) []record.Record {
	if req.Version < 2 || req.CordonedLogDirs == nil || !img.Level().HasCordonedDirs() {
		return nil
	}
	dirs := uuids(req.CordonedLogDirs)
	if b.CordonedLogDirs != nil && slices.Equal(dirs, b.CordonedLogDirs) {
		return nil
	}
	return because([]record.Record{&record.BrokerRegistrationChange{
		BrokerID: b.ID, BrokerEpoch: b.Epoch, CordonedLogDirs: dirs,
	}}, ofBroker(b.ID, "names its cordoned directories"))
}

// shutdown is why a broker that leaves hands over.
const shutdown = "controlled shutdown"

// Fence takes a broker out of office: its partitions first, then the broker, so
// that at no offset a fenced broker leads (invariant 10). Where more is true there
// were too many of them for one decision: it has to be asked again, with the same
// leaving.
func Fence(img *metadata.Image, id protocol.NodeID, why string, env Env, leaving *Leaving) (records []record.Record, more bool) {
	b, ok := img.Broker(id)
	if !ok || b.Fenced {
		return nil, false
	}
	if records, more = leaveISRs(img, env, id, false, leaving); !more {
		records = append(records, fencing(b, 1))
	}
	return because(records, ofBroker(id, why)), more
}

func fencing(b *metadata.Broker, change int8) record.Record {
	return &record.BrokerRegistrationChange{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: change}
}

// UnregisterBroker removes a registration for good. In the ELRs it stays: should it
// register again, it has to say that it did not stop cleanly, and leaves them.
// Where more is true it has to be asked again, as with Fence.
func UnregisterBroker(img *metadata.Image, id protocol.NodeID, env Env, leaving *Leaving) (records []record.Record, more bool, err error) {
	b, ok := img.Broker(id)
	if !ok {
		return nil, false, protocol.Errorf(protocol.ErrBrokerIDNotRegistered, "Broker ID %d is not currently registered", id)
	}
	if records, more = leaveISRs(img, env, id, false, leaving); !more {
		records = append(records, &record.UnregisterBroker{BrokerID: id, BrokerEpoch: b.Epoch})
	}
	return records, more, nil
}
