package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	sideReadHeaderTime = 5 * time.Second
	sideWriteTime      = 2 * time.Minute // a CPU profile takes as long as it is asked to
	sideDrainTime      = 2 * time.Second
)

// serveHTTP serves an operator's door until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: sideReadHeaderTime, WriteTimeout: sideWriteTime}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), sideDrainTime)
	defer cancel()
	if s.Shutdown(drain) != nil {
		_ = s.Close() // whoever still reads a profile loses it
	}
	<-served
	return nil
}

// servePrivate serves metrics and profiles on the private address.
func servePrivate(ctx context.Context, address string, node prometheus.Collector) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("bind the private port: %w", err)
	}
	registry := prometheus.NewRegistry() // the node's own: a development cluster has three nodes in a process
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), processID(), node)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return serveHTTP(ctx, l, mux)
}

// processID tells apart, together with the start time, whose CPU and memory these are: nodes of one process show the same.
func processID() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stanchion_process_pid", Help: "Id of the node's process on its machine."},
		func() float64 { return float64(os.Getpid()) })
}
