package raftlog

import (
	"fmt"
	"io"
	"log"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// raftLogger writes the library's log into ours, one level lower: what it
// calls an error is mostly a peer that does not answer, which is nothing that
// anybody must act on at once, and its Info is our debug. What belongs on an
// operator's timeline is logged by this package itself.
type raftLogger struct {
	out     zerolog.Logger
	name    string
	implied []any
}

func newRaftLogger(out zerolog.Logger) *raftLogger { return &raftLogger{out: out} }

// lowered maps the library's levels to ours.
func lowered(l hclog.Level) zerolog.Level {
	switch l {
	case hclog.Error:
		return zerolog.WarnLevel
	case hclog.Warn:
		return zerolog.InfoLevel
	case hclog.Info:
		return zerolog.DebugLevel
	case hclog.Off:
		return zerolog.Disabled
	default:
		return zerolog.TraceLevel
	}
}

func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if !l.enabled(level) {
		return
	}
	ev := l.out.WithLevel(lowered(level))
	if l.name != "" {
		ev = ev.Str("source", l.name)
	}
	fields(ev, l.implied)
	fields(ev, args)
	ev.Msg(msg)
}

// fields adds the library's alternating keys and values.
func fields(ev *zerolog.Event, args []any) {
	for i := 0; i+1 < len(args); i += 2 {
		key, ok := args[i].(string)
		if !ok {
			key = fmt.Sprint(args[i])
		}
		switch v := args[i+1].(type) {
		case hclog.Format:
			if format, ok := v[0].(string); ok {
				ev.Str(key, fmt.Sprintf(format, v[1:]...))
			}
		case error:
			ev.AnErr(key, v)
		case fmt.Stringer:
			ev.Str(key, v.String())
		case string:
			ev.Str(key, v)
		case []byte:
			ev.Hex(key, v)
		default:
			ev.Str(key, fmt.Sprint(v))
		}
	}
}

func (l *raftLogger) enabled(level hclog.Level) bool {
	at := lowered(level)
	return at != zerolog.Disabled && at >= l.out.GetLevel() && at >= zerolog.GlobalLevel()
}

func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l *raftLogger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l *raftLogger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

func (l *raftLogger) ImpliedArgs() []any { return l.implied }
func (l *raftLogger) Name() string       { return l.name }

func (l *raftLogger) With(args ...any) hclog.Logger {
	c := *l
	c.implied = append(append([]any(nil), l.implied...), args...)
	return &c
}

func (l *raftLogger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	c := *l
	c.name = name
	return &c
}

// SetLevel does nothing: the level is our logger's.
func (l *raftLogger) SetLevel(hclog.Level) {}

func (l *raftLogger) GetLevel() hclog.Level {
	for level := hclog.Trace; level <= hclog.Error; level++ {
		if l.enabled(level) {
			return level
		}
	}
	return hclog.Off
}

func (l *raftLogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return l.out }
