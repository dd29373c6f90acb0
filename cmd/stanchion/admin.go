package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/internal/platform"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
	"github.com/stanchion-locks/stanchion/web/api"
)

// admin is the operator's door of a node: a Unix socket, so that who may open the file may do this, whatever has become
// of single sign-on and API keys. It takes control entries about tenants and API keys in the form of the log, and tells
// the node's state. Declarations and signatures it takes in a development cluster alone: elsewhere a signature is the word
// of an owner who has just signed in, and no door gets around that.
type admin struct {
	platform *platform.Platform
	dev      bool
	log      *slog.Logger
}

func newAdmin(p *platform.Platform, dev bool, log *slog.Logger) http.Handler {
	a := admin{platform: p, dev: dev, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("POST /control", a.control)
	mux.HandleFunc("GET /class", a.class)
	mux.HandleFunc("GET /api-key", a.apiKey)
	mux.HandleFunc("GET /operator", a.operator)
	return mux
}

func (a admin) status(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, a.platform.Status(r.URL.Query().Get("hashes") == "1"))
}

// operatorReply is how the beginning of a cluster stands on this node.
type operatorReply struct {
	Begun bool `json:"begun"` // the control log has its first entry
	Leads bool `json:"leads"` // this node leads the control group
	Keys  int  `json:"keys"`  // operators' API keys
}

func (a admin) operator(w http.ResponseWriter, _ *http.Request) {
	var o operatorReply
	a.platform.ViewControl(func(m *control.Machine) {
		_, o.Begun = m.Cluster()
		o.Keys = len(m.APIKeys(tenants.Platform))
	})
	o.Leads = a.platform.LeadsControl()
	reply(w, http.StatusOK, o)
}

// controlReply is what became of a control entry.
type controlReply struct {
	Result *control.Result `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	// NotLeader: nothing was proposed; ask the node that leads the control group.
	NotLeader bool `json:"not_leader,omitempty"`
}

func (a admin) control(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, control.EntryBytesMax))
	if err != nil {
		reply(w, http.StatusRequestEntityTooLarge, controlReply{Error: err.Error()})
		return
	}
	entry, err := control.DecodeEntry(body)
	if err != nil {
		reply(w, http.StatusBadRequest, controlReply{Error: err.Error()})
		return
	}
	if entry.Review != nil && !a.dev {
		reply(w, http.StatusForbidden, controlReply{Error: "classes are declared through the API and signed by their owners, not through this socket"})
		return
	}
	result, err := a.platform.Control(r.Context(), entry)
	switch {
	case errors.Is(err, platform.ErrNotLeader):
		reply(w, http.StatusConflict, controlReply{Error: err.Error(), NotLeader: true})
	case err != nil:
		reply(w, http.StatusServiceUnavailable, controlReply{Error: err.Error()})
	default:
		a.log.Info("control entry through the operator's socket", "ok", result.OK, "reason", result.Reason)
		reply(w, http.StatusOK, controlReply{Result: &result})
	}
}

// classReply is how a class stands on this node.
type classReply struct {
	Known    bool            `json:"known"`
	Base     review.Digest   `json:"base"`     // what a new version replaces
	Signed   uint64          `json:"signed"`   // version signed last; 0: none
	Digest   review.Digest   `json:"digest"`   // of that version
	InForce  uint64          `json:"in_force"` // version that the partition grants under; 0: none
	Warnings []review.RuleID `json:"warnings"` // of the version in review last
	InReview uint64          `json:"in_review"`
	Reviewed review.Digest   `json:"in_review_digest"`
}

func (a admin) class(w http.ResponseWriter, r *http.Request) {
	tenant, name := tenants.TenantID(r.URL.Query().Get("tenant")), review.ClassName(r.URL.Query().Get("class"))
	var c classReply
	a.platform.ViewControl(func(m *control.Machine) {
		class, known := m.Class(tenant, name)
		c.Known, c.Base, c.Signed = known, class.Base(), class.Current
		if v, ok := class.Version(class.Current); ok {
			c.Digest = v.Digest
		}
		for _, v := range class.InReview() {
			c.InReview, c.Reviewed, c.Warnings = v.Number, v.Digest, v.Warnings
		}
	})
	c.InForce = a.platform.InForce(lockcore.TenantID(tenant), lockcore.ClassName(name))
	reply(w, http.StatusOK, c)
}

// keyReply is what a node makes of an API key.
type keyReply struct {
	Works  bool   `json:"works"`
	Tenant string `json:"tenant"`
	Known  bool   `json:"known"` // the node can tell; while it is behind the control log it cannot
}

// apiKey says whether the API key in the Authorization header works, so that a restarted development cluster can go on
// with the keys it has printed.
func (a admin) apiKey(w http.ResponseWriter, r *http.Request) {
	p, err := a.platform.Authenticate(r.Header.Get("Authorization"))
	reply(w, http.StatusOK, keyReply{Works: err == nil, Tenant: string(p.Tenant), Known: !errors.Is(err, api.ErrNotReady)})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever hung up does not need it
}
