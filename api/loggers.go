package api

import (
	"strconv"

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

// Loggers are a node's loggers, as requests for BROKER_LOGGER see them.
type Loggers struct {
	NodeID protocol.NodeID
	// Level is what they are about. Nil: the process's.
	Level LogLevel
	Log   zerolog.Logger
}

func (l Loggers) level() LogLevel {
	if l.Level == nil {
		return processLevel{}
	}
	return l.Level
}

// logLevels are the names of levels in Kafka's log library.
var logLevels = map[string]zerolog.Level{
	"TRACE": zerolog.TraceLevel, "DEBUG": zerolog.DebugLevel, "INFO": zerolog.InfoLevel,
	"WARN": zerolog.WarnLevel, "ERROR": zerolog.ErrorLevel, "FATAL": zerolog.FatalLevel,
}

// name is the level's name, that of the nearest one that Kafka knows.
func (l Loggers) name() string {
	level := max(l.level().Level(), l.Log.GetLevel())
	for name, known := range logLevels {
		if known == level {
			return name
		}
	}
	return "FATAL"
}

// Alter sets the level of this node's log. It is not kept: the next start begins
// as its command line says.
func (l Loggers) Alter(name string, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig, validateOnly bool) error {
	if err := CheckNodeID(l.NodeID, name, "Unexpected node id. Expected %d, but received %s"); err != nil {
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
		l.level().SetLevel(level)
		l.Log.Info().Str("level", level.String()).Msg("log level set")
	}
	return nil
}

// CheckNodeID refuses what is named after another node than this one; text says
// so of the two ids.
func CheckNodeID(self protocol.NodeID, name, text string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return protocol.Errorf(protocol.ErrInvalidRequest, "Node id must be an integer, but it is: %s", name)
	}
	if protocol.NodeID(id) != self {
		return protocol.Errorf(protocol.ErrInvalidRequest, text, self, name)
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
		if op.Value == nil { // on a broker this has been refused before
			return protocol.Errorf(protocol.ErrUnknownServerError, "The server experienced an unexpected error when processing the request.")
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
