package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/klamm/klamm/cmd/node"
	"github.com/klamm/klamm/config"
)

type serverFlags struct {
	dev       bool
	data      string
	listen    string
	overrides []string
	logLevel  string
	logFormat string
}

func newServerCommand() *cobra.Command {
	var flags serverFlags
	cmd := &cobra.Command{
		Use:   "server FILE | server --dev",
		Short: "Run a node",
		Long: `Run a node until SIGTERM or SIGINT.

With FILE, a server.properties as Kafka has it: the directories that it names
must have been formatted (klamm storage format). KAFKA_* variables of the
environment count more than the file, as in Kafka's container image, and can take
its place: KAFKA_LOG_DIRS is log.dirs, "__" stands for "_" and "___" for "-".

With --dev, one node that is controller and broker, for development: an empty
or missing data directory is formatted, one that belongs to something else is
left alone.`,
		Example: `  klamm server --dev
  klamm server --dev --data /tmp/klamm --listen localhost:19092
  klamm server server.properties --override num.partitions=3`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.dev {
				return noArgs(cmd, args)
			}
			if len(args) == 0 && len(config.FromEnvironment(os.Environ())) > 0 {
				return nil
			}
			if len(args) != 1 {
				return usagef("klamm server needs the path of a server.properties, or --dev for a node without one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), flags.logLevel, flags.logFormat)
			if err != nil {
				return err
			}
			if flags.dev {
				return runDev(cmd.Context(), flags, cmd.OutOrStdout(), log)
			}
			if cmd.Flags().Changed("data") || cmd.Flags().Changed("listen") {
				return usagef("--data and --listen belong to --dev; a file has log.dirs and listeners, which --override changes")
			}
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runFile(cmd.Context(), file, flags, log)
		},
	}
	cmd.Flags().BoolVar(&flags.dev, "dev", false, "run a development node without a configuration file")
	cmd.Flags().StringVar(&flags.data, "data", "", "with --dev: the data directory (default "+defaultDataDir()+")")
	cmd.Flags().StringVar(&flags.listen, "listen", "localhost:9092", "with --dev: HOST:PORT for clients; port 0 takes a free one")
	cmd.Flags().StringArrayVar(&flags.overrides, "override", nil, "KEY=VALUE that counts more than the file (repeat for more)")
	cmd.Flags().StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&flags.logFormat, "log-format", "auto", "json, text, or auto: text on a terminal")
	return cmd
}

func runFile(ctx context.Context, path string, flags serverFlags, log zerolog.Logger) error {
	cfg, err := config.Load(path, os.Environ(), flags.overrides)
	if err != nil {
		return usageError{err}
	}
	warn(cfg, log)
	if err := checkFormatted(cfg, flags.overrides); err != nil {
		return err
	}
	announce(cfg, log)
	return serve(ctx, cfg, log)
}

// announce says for each listener what its clients are told to connect to: most
// troubles of a first start are an advertised address that they cannot reach.
func announce(cfg *config.Config, log zerolog.Logger) {
	for _, l := range cfg.Listeners.Broker {
		for _, told := range cfg.Listeners.Advertised {
			if told.Name == l.Name {
				log.Info().Str("listener", l.Name).Str("connects_to", l.Address()).Str("is_told", told.Address()).
					Msg("a client that connects here is told this address")
				if !isLoopback(l.Host) && isLoopback(told.Host) {
					log.Warn().Str("listener", l.Name).Str("is_told", told.Address()).
						Msg("clients on other machines are told to connect to themselves: advertised.listeners names this machine's loopback address")
				}
			}
		}
	}
}

// isLoopback tells whether a listener's host is reached from this machine only.
// No host is every address of the machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// serve runs the node. A stop that was asked for is no failure.
func serve(ctx context.Context, cfg *config.Config, log zerolog.Logger) error {
	started := time.Now()
	log.Info().Str("version", version).Int32("node", int32(cfg.Node.ID)).Str("config", cfg.File).Msg("starting")
	err := node.Run(ctx, cfg, version, log)
	if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return err
	}
	log.Info().Dur("uptime", time.Since(started)).Msg("stopped")
	return nil
}

// warn says once what of the configuration has no effect.
func warn(cfg *config.Config, log zerolog.Logger) {
	for _, finding := range []struct {
		keys []string
		text string
	}{
		{cfg.Unknown, "configuration keys that Kafka does not have are ignored"},
		{cfg.Unused, "configuration keys that have no effect in this version"},
		{cfg.Repeated, "configuration keys given more than once: the last one counts"},
	} {
		if len(finding.keys) > 0 {
			log.Warn().Str("config", cfg.File).Strs("keys", finding.keys).Msg(finding.text)
		}
	}
}

func newLogger(out io.Writer, level, format string) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return zerolog.Nop(), usagef("--log-level %q: valid is debug, info, warn or error", level)
	}
	switch format {
	case "json":
	case "text":
		out = textWriter(out)
	case "auto":
		if isTerminal(out) {
			out = textWriter(out)
		}
	default:
		return zerolog.Nop(), usagef("--log-format %q: valid is json, text or auto", format)
	}
	// The process's level, not this logger's: it can be set anew at run time, to a
	// louder one too (BROKER_LOGGER).
	zerolog.SetGlobalLevel(parsed)
	return zerolog.New(out).With().Timestamp().Logger(), nil
}

func textWriter(out io.Writer) io.Writer {
	return zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: !isTerminal(out)}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lines prints lines, for text that a person reads.
func lines(out io.Writer, text ...string) { fmt.Fprintln(out, strings.Join(text, "\n")) }
