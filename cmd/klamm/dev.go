package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/config/properties"
	"github.com/klamm/klamm/protocol"
)

// devNode is the node id of a development node.
const devNode = 1

// defaultDataDir is where a development node keeps its data when nobody says:
// the user's data home, so that `klamm server --dev` finds its topics again
// from any working directory.
func defaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "klamm")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "klamm-data"
	}
	return filepath.Join(home, ".local", "share", "klamm")
}

func runDev(ctx context.Context, flags serverFlags, out io.Writer, log zerolog.Logger) error {
	if flags.data == "" {
		flags.data = defaultDataDir()
	}
	data, err := filepath.Abs(flags.data)
	if err != nil {
		return err
	}
	cfg, err := devConfig(data, flags.listen, flags.overrides)
	if err != nil {
		return usageError{err}
	}
	warn(cfg, log)
	formatted, err := prepareDev(cfg)
	if err != nil {
		return err
	}
	if formatted {
		log.Info().Str("dir", data).Msg("formatted an empty directory")
	}
	// The greeting waits for the node to serve: a port that accepts means
	// that. It ends with the node, whatever comes first.
	ctx, cancel := context.WithCancel(ctx)
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		if waitForPort(ctx, cfg.Listeners.Broker[0]) {
			greet(out, cfg)
		}
	}()
	err = serve(ctx, cfg, log)
	cancel()
	<-greeted
	return err
}

// devConfig is a server.properties for one node that is everything.
func devConfig(data, listen string, overrides []string) (*config.Config, error) {
	if strings.Contains(data, ",") {
		return nil, fmt.Errorf("--data %q: a comma separates directories in log.dirs; valid is a path without one", data)
	}
	host, port, err := splitListen(listen)
	if err != nil {
		return nil, err
	}
	controllerPort, err := freePort("localhost", port+1)
	if err != nil {
		return nil, err
	}
	advertised := host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		// Others need a name to come back to.
		if advertised, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("--listen %s listens on every address, and this machine's name is not known: %w; give the name or address that clients use", listen, err)
		}
	}
	controller := net.JoinHostPort("localhost", strconv.Itoa(controllerPort))
	text := []string{
		"process.roles=broker,controller",
		"node.id=" + strconv.Itoa(devNode),
		"controller.quorum.voters=" + strconv.Itoa(devNode) + "@" + controller,
		"listeners=PLAINTEXT://" + net.JoinHostPort(host, strconv.Itoa(port)) + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + net.JoinHostPort(advertised, strconv.Itoa(port)),
		"controller.listener.names=CONTROLLER",
		// There is nobody else to hold a replica.
		"offsets.topic.replication.factor=1",
	}
	props, err := properties.Parse(strings.NewReader(strings.Join(text, "\n")))
	if err != nil {
		return nil, err
	}
	props = append(props, properties.Property{Key: "log.dirs", Value: data, Line: len(text) + 1})
	for _, override := range overrides {
		key, value, ok := strings.Cut(override, "=")
		if !ok {
			return nil, fmt.Errorf("--override %s: valid is KEY=VALUE", override)
		}
		props = append(props, properties.Property{Key: key, Value: value})
	}
	return config.Parse("--dev", props)
}

// splitListen reads HOST:PORT. Port 0 becomes a free one, since the address is
// told to clients before the node binds it; one that is taken is an error.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("--listen %q: valid is HOST:PORT, such as localhost:9092", listen)
	}
	free, err := freePort(host, port)
	if err == nil && port != 0 && free != port {
		// The node would say so too, after it has done everything else.
		err = fmt.Errorf("--listen %s: the port is in use; give another one, or 0 for any", listen)
	}
	return host, free, err
}

// freePort gives the wanted port if it can be bound, else a free one. Somebody
// may take it before the node does; the node then says so and does not start.
func freePort(host string, wanted int) (int, error) {
	if wanted > 65535 {
		wanted = 0
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(wanted)))
	if err != nil {
		if wanted == 0 {
			return 0, fmt.Errorf("find a free port on %s: %w", host, err)
		}
		return freePort(host, 0)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// prepareDev formats the data directory if there is nothing in it, and refuses
// one that a development node did not make.
func prepareDev(cfg *config.Config) (formatted bool, err error) {
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		switch {
		case err != nil:
			return false, err
		case state.kind == dirForeign:
			return false, fmt.Errorf("%s holds %s, not the data of a klamm node: give --data an empty or new directory", dir, state.sample)
		case state.kind == dirFormatted && state.meta.NodeID != devNode:
			return false, fmt.Errorf("%s belongs to node %d of cluster %s, which is no development node: give --data another directory, or start it with its own server.properties", dir, state.meta.NodeID, state.meta.ClusterID)
		case state.kind == dirFormatted && state.otherKafka:
			return false, fmt.Errorf("%s has a metadata log without raft.db: either Apache Kafka wrote it, whose metadata log is not klamm's, or raft.db is lost. Give --data another directory, or restore %s from a copy", dir, metadataDir)
		case state.kind == dirEmpty:
			formatted = true
		}
	}
	if !formatted {
		return false, nil
	}
	plan, err := newFormatPlan(cfg, formatFlags{clusterID: protocol.NewUUID().String(), ignoreFormatted: true})
	if err != nil {
		return false, err
	}
	_, err = formatDirs(cfg, plan)
	return true, err
}

// waitForPort waits until the listener accepts, and reports whether it did.
func waitForPort(ctx context.Context, listener config.Listener) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", listener.Address())
		if err == nil {
			return errors.Join(conn.Close(), ctx.Err()) == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func greet(out io.Writer, cfg *config.Config) {
	address := cfg.Listeners.Advertised[0].Address()
	lines(out,
		"",
		"klamm "+version+" serves on "+address+" (bootstrap.servers="+address+"), data in "+cfg.Dirs.Metadata,
		"",
		"  echo hello | kcat -b "+address+" -P -t greetings",
		"  kcat -b "+address+" -C -t greetings -e",
		"",
		"Ctrl-C stops it; the data stays.",
		"")
}
