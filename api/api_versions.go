package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// ApiVersions returns the API of that name. It lists what the connection's
// listener serves.
func ApiVersions(env Env) server.API {
	return server.Serve(kmsg.ApiVersions, func(_ context.Context, req *server.Request) server.Answer {
		body := req.Body.(*kmsg.ApiVersionsRequest)
		resp := apiVersions(env, req.Conn.Served(), body)
		if resp.ErrorCode == 0 && body.Version >= 3 {
			req.Conn.SetClientSoftware(body.ClientSoftwareName, body.ClientSoftwareVersion)
		}
		return server.Answer{Response: resp}
	})
}

func apiVersions(env Env, served []server.VersionRange, req *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = req.Version
	if err := checkApiVersions(env, req); err != nil {
		resp.ErrorCode = int16(protocol.CodeOf(err))
		return resp
	}
	for _, r := range served {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r.Key, r.Min, r.Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	if req.Version < 3 {
		return resp
	}
	for _, f := range SupportedFeatures() {
		// Clients older than KIP-584's fix choke on a minimum of 0, so that v3
		// lists none of these.
		if req.Version < 4 && f.Min == 0 {
			continue
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	img := env.Image()
	for name, level := range img.Features() {
		if level == 0 {
			continue
		}
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	if env.KRaftVersion != nil && env.KRaftVersion() > 0 {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MaxVersionLevel = feature.KRaftVersion, env.KRaftVersion()
		f.MinVersionLevel = f.MaxVersionLevel
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	// On brokers Kafka takes the offset that the broker has applied, on
	// controllers that of the last change. Clients need it to grow only.
	resp.FinalizedFeaturesEpoch = img.Offset()
	if env.Kind == protocol.ControllerListener {
		resp.FinalizedFeaturesEpoch = img.FinalizedFeaturesEpoch()
	}
	return resp
}

func checkApiVersions(env Env, req *kmsg.ApiVersionsRequest) error {
	if req.Version >= 3 && !(softwareName(req.ClientSoftwareName) && softwareName(req.ClientSoftwareVersion)) {
		return protocol.ErrInvalidRequest
	}
	if req.Version < 5 {
		return nil
	}
	// KIP-1242: a client may say whom it means to talk to; both or neither.
	if (req.ClusterID == nil) != (req.NodeID == -1) {
		return protocol.ErrInvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != env.ClusterID || protocol.NodeID(req.NodeID) != env.NodeID) {
		return protocol.ErrRebootstrapRequired
	}
	return nil
}

// softwareName tells whether s may be a client's name or version (KIP-511):
// letters, digits, dashes and dots, a letter or digit first and last.
func softwareName(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || i == len(s)-1 || c != '-' && c != '.') {
			return false
		}
	}
	return true
}
