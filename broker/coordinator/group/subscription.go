package group

import "encoding/binary"

// subscriptions are the topics that the members subscribe to, as far as they are
// consumers whose metadata can be read; nil where that is not known.
func (g *group) subscriptions() map[string]struct{} {
	if g.protocolType != consumerType {
		return nil
	}
	topics := make(map[string]struct{})
	if len(g.members) == 0 {
		return topics
	}
	if g.protocol == nil {
		return nil
	}
	for _, m := range g.members {
		if !readTopics(m.metadata(*g.protocol), topics) {
			return nil
		}
	}
	return topics
}

// readTopics adds the topics of a consumer's metadata, of which only the
// beginning is looked at. Layout (ConsumerProtocolSubscription.json, all
// versions):
//
//	0 version  int16
//	2 topics   int32 count, each an int16 length and the name
//	  user data and what later versions add
func readTopics(p []byte, topics map[string]struct{}) bool {
	if len(p) < 6 || int16(binary.BigEndian.Uint16(p)) < 0 {
		return false
	}
	count := int32(binary.BigEndian.Uint32(p[2:]))
	p = p[6:]
	if count < 0 {
		return false
	}
	for range count {
		if len(p) < 2 {
			return false
		}
		n := int(int16(binary.BigEndian.Uint16(p)))
		if n < 0 || n > len(p)-2 {
			return false
		}
		topics[string(p[2:2+n])] = struct{}{}
		p = p[2+n:]
	}
	return true
}
