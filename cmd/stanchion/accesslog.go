package main

import (
	"io"
	"log/slog"

	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	accessLogFile    = "access.log" // in the node's data folder, unless the configuration says otherwise
	accessLogMB      = 100          // of one file
	accessLogBackups = 10
)

// openAccessLog makes a node's own log of who asked for what, refused requests included. It is no part of the audit: it
// concerns this node alone, and its oldest file goes when there are too many.
func openAccessLog(path string) (*slog.Logger, io.Closer) {
	file := &lumberjack.Logger{Filename: path, MaxSize: accessLogMB, MaxBackups: accessLogBackups, Compress: true}
	return slog.New(slog.NewJSONHandler(file, nil)), file
}
