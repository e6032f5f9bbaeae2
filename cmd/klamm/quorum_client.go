package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

// clusterFlags say which running cluster is meant, as with Kafka's tools.
type clusterFlags struct {
	servers, controllers []string
	timeout              time.Duration
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	f.registerBrokers(cmd)
	cmd.Flags().StringSliceVar(&f.controllers, "bootstrap-controller", nil, "HOST:PORT of controllers, with commas between")
}

// registerBrokers is register for what only brokers can answer.
func (f *clusterFlags) registerBrokers(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.servers, "bootstrap-server", nil, "HOST:PORT of brokers, with commas between")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try")
}

func (f *clusterFlags) given() bool { return len(f.servers)+len(f.controllers) > 0 }

// check refuses what leaves open whom to ask.
func (f *clusterFlags) check(cmd *cobra.Command) error {
	if len(f.servers) > 0 && len(f.controllers) > 0 {
		return usagef("%s takes one of --bootstrap-server and --bootstrap-controller", cmd.CommandPath())
	}
	for _, address := range append(f.servers, f.controllers...) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return usagef("%q is no HOST:PORT", address)
		}
	}
	if f.timeout <= 0 {
		return usagef("--timeout %v leaves no time", f.timeout)
	}
	return nil
}

// pause is between two attempts: an election takes about as long.
const pause = 200 * time.Millisecond

// with calls do with a connection to somebody who answers for the active
// controller: any broker, which forwards, or that controller itself. What fails is
// tried again, with others too, until the time is up or the error is final.
func (f *clusterFlags) with(ctx context.Context, do func(context.Context, *client.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	for {
		var errs []error
		for _, address := range append(f.servers, f.controllers...) {
			err := f.withOne(ctx, address, do)
			var final finalError
			if err == nil || errors.As(err, &final) {
				return err
			}
			errs = append(errs, fmt.Errorf("%s: %w", address, err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer after %v, at last: %w", f.timeout, errors.Join(errs...))
		case <-time.After(pause):
		}
	}
}

// finalError is one that does not go away by asking again.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func (f *clusterFlags) withOne(ctx context.Context, address string, do func(context.Context, *client.Conn) error) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if len(f.controllers) > 0 {
		active, err := activeController(ctx, conn, address)
		if err != nil {
			return err
		}
		if active != address {
			if conn, err = dial(ctx, active); err != nil {
				return err
			}
			defer conn.Close()
		}
	}
	err = do(ctx, conn)
	if err != nil && len(f.controllers) == 0 && isController(ctx, conn) {
		return finalError{fmt.Errorf("%s is where a controller listens, and --bootstrap-server takes brokers", address)}
	}
	if errors.Is(err, protocol.ErrUnsupportedVersion) {
		return finalError{err}
	}
	return err
}

// isController tells whether a connection leads to a controller's listener.
func isController(ctx context.Context, conn *client.Conn) bool {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1 // brokers
	answer, err := conn.Request(ctx, req)
	return err == nil && protocol.Error(answer.(*kmsg.DescribeClusterResponse).ErrorCode) == protocol.ErrMismatchedEndpointType
}

func dial(ctx context.Context, address string) (*client.Conn, error) {
	return client.Dial(ctx, address, client.Config{ClientID: "klamm-quorum"})
}

// activeController asks a controller where the active one is (KIP-919).
func activeController(ctx context.Context, conn *client.Conn, address string) (string, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2 // controllers
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return "", err
	}
	resp := answer.(*kmsg.DescribeClusterResponse)
	switch code := protocol.Error(resp.ErrorCode); code {
	case protocol.None:
	case protocol.ErrMismatchedEndpointType:
		return "", finalError{fmt.Errorf("%s is where a broker listens, and --bootstrap-controller takes controllers", address)}
	default:
		return "", finalError{refusal(code, resp.ErrorMessage)}
	}
	for _, b := range resp.Brokers {
		if b.NodeID == resp.ControllerID {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), nil
		}
	}
	return "", errors.New("it knows no active controller")
}

// refusal is an error code with the text that came with it.
func refusal(code protocol.Error, text *string) error {
	if text == nil || strings.TrimSpace(*text) == "" {
		return code
	}
	return fmt.Errorf("%w: %s", code, *text)
}
