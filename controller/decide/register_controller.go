package decide

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// RegisterController decides a controller's registration (KIP-919): where it
// listens and which feature levels it supports.
func RegisterController(img *metadata.Image, req *kmsg.ControllerRegistrationRequest) ([]record.Record, error) {
	if req.ControllerID < 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest, "Controller id %d is negative", req.ControllerID)
	}
	if !img.Level().HasControllerRegistration() {
		return nil, protocol.Errorf(protocol.ErrUnsupportedVersion, "The current MetadataVersion is too old to support controller registrations.")
	}
	reg := &record.RegisterController{
		ControllerID:  protocol.NodeID(req.ControllerID),
		IncarnationID: req.IncarnationID,
	}
	for _, l := range req.Listeners {
		reg.Endpoints = append(reg.Endpoints, record.Endpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range req.Features {
		reg.Features = append(reg.Features, record.FeatureRange{
			Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion,
		})
	}
	return []record.Record{reg}, nil
}
