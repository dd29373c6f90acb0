package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

// Route is one registered route, as the table shows it.
type Route struct {
	Method     string
	Path       string
	Permission api.Permission
}

// Routes is the table of all routes with their permissions. The slice is the caller's own.
func (s *Server) Routes() []Route { return append([]Route(nil), s.routes...) }

// route registers a route. It is the only place that does, so that none lacks a permission.
func (s *Server) route(method, path string, permission api.Permission, handler api.Handler) {
	if permission.IsZero() {
		panic(fmt.Sprintf("web: %s %s has no permission", method, path))
	}
	s.routes = append(s.routes, Route{method, path, permission})
	s.echo.Add(method, path, func(c echo.Context) error {
		return s.answer(c, path, audited(method, permission), func() (tenants.Principal, error) { return s.api.Serve(c, permission, handler) })
	})
}

// audited reports whether requests of a route change leases: what comes of them is in the audit, or is a heartbeat, which
// comes too often to be written down.
func audited(method string, permission api.Permission) bool {
	return method != http.MethodGet && (permission == api.LocksAcquire || permission == api.LocksKeep)
}

// answer gives a request its id, serves it, answers its failure as a problem, and logs it.
func (s *Server) answer(c echo.Context, path string, audited bool, serve func() (tenants.Principal, error)) error {
	began := s.now()
	id := api.RequestID(c.Request().Header.Get(api.HeaderRequestID))
	c.Response().Header()[api.HeaderRequestID] = []string{id}
	caller, err := s.guarded(c, serve)
	if err != nil {
		s.fail(c, id, err)
	}
	if !audited || c.Response().Status >= http.StatusBadRequest {
		s.logAccess(c, path, caller, began)
	}
	return nil
}

// guarded turns a panic into an error. The one with which a handler breaks its connection off goes on.
func (s *Server) guarded(c echo.Context, serve func() (tenants.Principal, error)) (caller tenants.Principal, err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.log.LogAttrs(c.Request().Context(), slog.LevelError, "handler panicked",
			slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		err = wire.NewProblem(wire.CodeInternal, "")
	}()
	return serve()
}

// fail answers an error. What no table explains is told in the log, once, under the request's id.
func (s *Server) fail(c echo.Context, id string, err error) {
	p, listed := api.ProblemOf(err)
	ctx := c.Request().Context()
	if !listed {
		s.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request_id", id), slog.Any("error", err))
	}
	if c.Response().Committed {
		return
	}
	if err := s.api.WriteProblem(c, p); err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "answer not delivered", slog.String("request_id", id), slog.Any("error", err))
	}
}

// unrouted answers what no route takes: an unknown address or a method that the address does not have.
func (s *Server) unrouted(err error, c echo.Context) {
	_ = s.answer(c, "", false, func() (tenants.Principal, error) {
		c.Response().Header().Set("Cache-Control", "no-store")
		if e, ok := errors.AsType[*echo.HTTPError](err); ok {
			switch e.Code {
			case http.StatusMethodNotAllowed:
				return tenants.Principal{}, wire.NewProblem(wire.CodeMethodNotAllowed, "")
			case http.StatusNotFound:
				return tenants.Principal{}, wire.NewProblem(wire.CodeNotFound, "")
			}
		}
		return tenants.Principal{}, err
	})
}

// logAccess writes one line. It knows no header, no query and no body, so that no secret and no session id gets into it.
func (s *Server) logAccess(c echo.Context, path string, caller tenants.Principal, began time.Time) {
	ctx := c.Request().Context()
	if s.access == nil || !s.access.Enabled(ctx, slog.LevelInfo) {
		return
	}
	s.access.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", c.Request().Method), slog.String("route", path),
		slog.Int("status", c.Response().Status), slog.Duration("took", s.now().Sub(began)), slog.String("tenant", string(caller.Tenant)),
		slog.String("api_key", string(caller.KeyID)), slog.String("remote", c.RealIP()),
		slog.String("request_id", c.Response().Header().Get(api.HeaderRequestID)))
}
