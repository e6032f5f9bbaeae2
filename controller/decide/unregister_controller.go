package decide

import (
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// UnregisterController removes a controller's registration (KIP-1312). The active
// controller keeps its own: it registers when it takes office, and not again.
func UnregisterController(img *metadata.Image, id protocol.NodeID, env Env) ([]record.Record, error) {
	if !img.Level().HasControllerUnregistration() {
		return nil, protocol.Errorf(protocol.ErrUnsupportedVersion, "The current MetadataVersion is too old to support controller unregistration.")
	}
	if _, ok := img.Controller(id); !ok {
		return nil, protocol.Errorf(protocol.ErrControllerIDNotRegistered, "Controller ID %d is not currently registered.", id)
	}
	if id == env.NodeID {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Controller ID %d is the active controller.", id)
	}
	return []record.Record{&record.UnregisterController{ControllerID: id}}, nil
}
