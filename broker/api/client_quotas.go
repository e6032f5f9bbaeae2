package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// alterClientQuotas has the controller set and remove quotas.
func (a *Admin) alterClientQuotas(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.AlterClientQuotasRequest)
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrAlterClientQuotasResponse()
		for _, entry := range body.Entries {
			answer := kmsg.NewAlterClientQuotasResponseEntry()
			answer.ErrorCode, answer.ErrorMessage = code, message
			for _, part := range entry.Entity {
				answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
			}
			resp.Entries = append(resp.Entries, answer)
		}
		return resp
	})
}

// describeClientQuotas answers with the quotas of all entities that a filter
// means, from the image.
func (a *Admin) describeClientQuotas(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeClientQuotasRequest)
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	resp.Version = req.Version
	if err := checkQuotaFilter(body.Components); err != nil {
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return server.Answer{Response: resp}
	}
	none := ""
	resp.ErrorMessage = &none
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // empty; null goes with an error
	for entity, quotas := range a.Image().Quotas() {
		if !matchesQuota(entity, body) {
			continue
		}
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, part := range entity {
			entry.Entity = append(entry.Entity, kmsg.DescribeClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
		}
		for _, q := range quotas {
			entry.Values = append(entry.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: q.Key, Value: q.Value})
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return server.Answer{Response: resp}
}

// checkQuotaFilter refuses filters that make no sense.
func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) error {
	seen := make(map[string]bool, len(components))
	for _, c := range components {
		switch {
		case c.EntityType == "":
			return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid empty entity type.")
		case seen[c.EntityType]:
			return protocol.Errorf(protocol.ErrInvalidRequest, "Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case c.EntityType != "user" && c.EntityType != "client-id" && c.EntityType != "ip":
			return protocol.Errorf(protocol.ErrUnsupportedVersion, "Unsupported entity type %s", c.EntityType)
		}
		seen[c.EntityType] = true
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			if c.Match == nil {
				return protocol.Errorf(protocol.ErrInvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
			}
		case kmsg.QuotasMatchTypeDefault:
			if c.Match != nil {
				return protocol.Errorf(protocol.ErrInvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
			}
		case kmsg.QuotasMatchTypeAny:
			if c.Match != nil {
				return protocol.Errorf(protocol.ErrInvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
			}
		default:
			return protocol.Errorf(protocol.ErrInvalidRequest, "Unknown match type %d", c.MatchType)
		}
	}
	if seen["ip"] && (seen["user"] || seen["client-id"]) {
		return protocol.Errorf(protocol.ErrInvalidRequest,
			"Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}

func matchesQuota(entity metadata.QuotaEntity, req *kmsg.DescribeClientQuotasRequest) bool {
	if req.Strict && len(entity) != len(req.Components) {
		return false
	}
	for _, c := range req.Components {
		name, ok := entity.Part(c.EntityType)
		switch {
		case !ok:
			return false
		case c.MatchType == kmsg.QuotasMatchTypeExact && (name == nil || *name != *c.Match):
			return false
		case c.MatchType == kmsg.QuotasMatchTypeDefault && name != nil:
			return false
		}
	}
	return true
}
