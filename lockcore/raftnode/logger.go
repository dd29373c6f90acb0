package raftnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const logRecordsMax = 1024

// logPump takes log records without ever waiting and writes them from one goroutine; when it cannot keep up, records
// are dropped and counted. Raft logs from its main loop, which must not stand still because a log pipe does.
type logPump struct {
	handler slog.Handler
	records chan pumped
	dropped atomic.Uint64
	quit    chan struct{}
	done    chan struct{}
	stop    func()
}

type pumped struct {
	handler slog.Handler
	record  slog.Record
}

// newLogPump starts the pump; the caller owns it and calls close.
func newLogPump(handler slog.Handler) *logPump {
	p := &logPump{handler: handler, records: make(chan pumped, logRecordsMax), quit: make(chan struct{}), done: make(chan struct{})}
	p.stop = sync.OnceFunc(func() { close(p.quit) })
	go p.run()
	return p
}

// close writes what is queued and ends the goroutine. Records that come later are dropped.
func (p *logPump) close(ctx context.Context) {
	p.stop()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

func (p *logPump) run() {
	defer close(p.done)
	for {
		select {
		case r := <-p.records:
			p.write(r)
		case <-p.quit:
			for {
				select {
				case r := <-p.records:
					p.write(r)
				default:
					return
				}
			}
		}
	}
}

func (p *logPump) write(r pumped) {
	if n := p.dropped.Swap(0); n > 0 {
		r.record.AddAttrs(slog.Uint64("log_records_dropped", n))
	}
	// A log that cannot be written has nowhere to be reported.
	_ = r.handler.Handle(context.Background(), r.record)
}

func (p *logPump) put(r pumped) {
	select {
	case p.records <- r:
	default:
		p.dropped.Add(1)
	}
}

// raftLogger is the library's logger interface over the pump. Levels below the handler's cost nothing but the check.
type raftLogger struct {
	pump    *logPump
	handler slog.Handler
	name    string
	implied []any
}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(pump *logPump, name string) *raftLogger {
	return &raftLogger{pump: pump, handler: pump.handler, name: name}
}

// slogLevel maps the library's levels; its chatter about each connection and request ranks below debug.
func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info, hclog.NoLevel:
		return slog.LevelInfo
	case hclog.Debug:
		return slog.LevelDebug
	}
	return slog.LevelDebug - 4
}

// Log writes one record.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if level == hclog.Off || !l.enabled(to) {
		return
	}
	record := slog.NewRecord(time.Now(), to, msg, 0)
	record.Add("component", l.name)
	for i := 0; i+1 < len(args); i += 2 {
		record.Add(fmt.Sprint(args[i]), plainValue(args[i+1]))
	}
	l.pump.put(pumped{l.handler, record})
}

func (l *raftLogger) enabled(level slog.Level) bool {
	return l.handler.Enabled(context.Background(), level)
}

// plainValue renders what must not be read later, on another goroutine.
func plainValue(v any) any {
	switch v := v.(type) {
	case hclog.Format:
		if len(v) == 0 {
			return ""
		}
		return fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
	case string, bool, int, int64, uint64, float64, time.Duration, time.Time:
		return v
	}
	return fmt.Sprint(v)
}

// Trace, Debug, Info, Warn and Error write one record at their level.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace and its siblings tell whether a record of that level would be written.
func (l *raftLogger) IsTrace() bool { return l.enabled(slogLevel(hclog.Trace)) }
func (l *raftLogger) IsDebug() bool { return l.enabled(slogLevel(hclog.Debug)) }
func (l *raftLogger) IsInfo() bool  { return l.enabled(slogLevel(hclog.Info)) }
func (l *raftLogger) IsWarn() bool  { return l.enabled(slogLevel(hclog.Warn)) }
func (l *raftLogger) IsError() bool { return l.enabled(slogLevel(hclog.Error)) }

// ImpliedArgs returns the arguments given to With.
func (l *raftLogger) ImpliedArgs() []any { return l.implied }

// With returns a logger that adds args to each record.
func (l *raftLogger) With(args ...any) hclog.Logger {
	next := *l
	next.implied = append(next.implied[:len(next.implied):len(next.implied)], args...)
	attrs := make([]slog.Attr, 0, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		attrs = append(attrs, slog.Any(fmt.Sprint(args[i]), plainValue(args[i+1])))
	}
	next.handler = l.handler.WithAttrs(attrs)
	return &next
}

// Name returns the component's name.
func (l *raftLogger) Name() string { return l.name }

// Named returns a logger for a part of the component.
func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed returns a logger for another component.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	next := *l
	next.name = name
	return &next
}

// SetLevel does nothing: the handler decides.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that would be written.
func (l *raftLogger) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn, hclog.Error} {
		if l.enabled(slogLevel(level)) {
			return level
		}
	}
	return hclog.Off
}

// StandardLogger returns a logger of the standard library whose lines become records.
func (l *raftLogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter returns a writer whose lines become records.
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ logger *raftLogger }

// Write makes one record of p.
func (w lineWriter) Write(p []byte) (int, error) {
	w.logger.Info(string(p))
	return len(p), nil
}
