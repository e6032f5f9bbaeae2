package node

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

// kraftVersions asks the controller at an address which levels of kraft.version it
// supports.
func (n *node) kraftVersions(ctx context.Context, addr string) (low, high int16, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Quorum.RequestTimeout)
	defer cancel()
	conn, err := client.Dial(ctx, addr, client.Config{ClientID: fmt.Sprintf("raft-client-%d", n.cfg.Node.ID)})
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "klamm", "1"
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return 0, 0, err
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return 0, 0, fmt.Errorf("controller %s answers ApiVersions with %T", addr, answer)
	}
	if resp.ErrorCode != 0 {
		return 0, 0, fmt.Errorf("controller %s answers ApiVersions with %w", addr, protocol.Error(resp.ErrorCode))
	}
	for _, f := range resp.SupportedFeatures {
		if f.Name == feature.KRaftVersion {
			return f.MinVersion, f.MaxVersion, nil
		}
	}
	return 0, 0, nil
}
