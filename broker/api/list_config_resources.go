package api

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// listConfigResources lists what has configs, or can have some: all topics and
// brokers, the groups and subscriptions that have. Version 0 knew subscriptions
// only (KIP-1142).
func (a *Admin) listConfigResources(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	resp.Version = req.Version
	kinds := body.ResourceTypes
	switch {
	case req.Version == 0:
		kinds = []int8{metadata.ResourceClientMetrics}
	case len(kinds) == 0:
		kinds = []int8{
			metadata.ResourceTopic, metadata.ResourceBroker, metadata.ResourceBrokerLogger,
			metadata.ResourceClientMetrics, metadata.ResourceGroup,
		}
	}
	for _, kind := range kinds {
		if !shared.IsResourceType(kind) {
			resp.ErrorCode = int16(protocol.ErrUnsupportedVersion)
			return server.Answer{Response: resp}
		}
	}
	img := a.Image()
	add := func(kind int8, name string) {
		resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: kind})
	}
	if slices.Contains(kinds, metadata.ResourceTopic) {
		for t := range img.Topics() {
			add(metadata.ResourceTopic, t.Name)
		}
	}
	for _, kind := range []int8{metadata.ResourceBroker, metadata.ResourceBrokerLogger} {
		if slices.Contains(kinds, kind) {
			for b := range img.Brokers() {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		}
	}
	for res := range img.ConfigResources() {
		if (res.Type == metadata.ResourceClientMetrics || res.Type == metadata.ResourceGroup) && slices.Contains(kinds, res.Type) {
			add(res.Type, res.Name)
		}
	}
	return server.Answer{Response: resp}
}
