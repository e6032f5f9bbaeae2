package api

import (
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// rootLogger is the only logger: components log with their name in a field, and
// not at levels of their own.
const rootLogger = "root"

// LogLevel is the level at which the process logs.
type LogLevel interface {
	Level() zerolog.Level
	SetLevel(level zerolog.Level)
}

// processLevel is zerolog's level of the process. A logger that was made for a
// level of its own gets no louder by it.
type processLevel struct{}

func (processLevel) Level() zerolog.Level         { return zerolog.GlobalLevel() }
func (processLevel) SetLevel(level zerolog.Level) { zerolog.SetGlobalLevel(level) }

// logLevels are the names of levels in Kafka's log library.
var logLevels = map[string]zerolog.Level{
	"TRACE": zerolog.TraceLevel, "DEBUG": zerolog.DebugLevel, "INFO": zerolog.InfoLevel,
	"WARN": zerolog.WarnLevel, "ERROR": zerolog.ErrorLevel, "FATAL": zerolog.FatalLevel,
}

// levelName is a level's name, that of the nearest one that Kafka knows.
func (a *Admin) levelName() string {
	level := max(a.LogLevel.Level(), a.Log.GetLevel())
	for name, known := range logLevels {
		if known == level {
			return name
		}
	}
	return "FATAL"
}

// alterLoggers sets the level of this broker's log. It is not kept: the next
// start begins as its command line says.
func (a *Admin) alterLoggers(name string, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig, validateOnly bool) error {
	if err := a.checkNodeID(name, "Unexpected node id. Expected %d, but received %s"); err != nil {
		return err
	}
	for _, op := range ops {
		if err := checkLogger(op); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	for _, op := range ops {
		level := logLevels[*op.Value]
		a.LogLevel.SetLevel(level)
		a.Log.Info().Str("level", level.String()).Msg("log level set")
	}
	return nil
}

// verbs name the operations that loggers do not have.
var verbs = map[kmsg.IncrementalAlterConfigOp]string{
	kmsg.IncrementalAlterConfigOpAppend: "APPEND", kmsg.IncrementalAlterConfigOpSubtract: "SUBTRACT",
}

func checkLogger(op kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	exists := op.Name == rootLogger
	switch op.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		if !exists {
			break
		}
		if _, ok := logLevels[*op.Value]; !ok {
			return protocol.Errorf(protocol.ErrInvalidConfig,
				"Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN", op.Name, *op.Value)
		}
	case kmsg.IncrementalAlterConfigOpDelete:
		if exists {
			return protocol.Errorf(protocol.ErrInvalidRequest, "Removing the log level of the %s logger is not allowed", op.Name)
		}
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		return protocol.Errorf(protocol.ErrInvalidRequest, "%s operation is not allowed for the BROKER_LOGGER resource", verbs[op.Op])
	default:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Unknown operation type %d is not allowed for the BROKER_LOGGER resource", op.Op)
	}
	if !exists {
		return protocol.Errorf(protocol.ErrInvalidConfig, "Logger %s does not exist!", op.Name)
	}
	return nil
}
