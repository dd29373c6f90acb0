package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
)

func TestGetVersion_waitsUntilItIsInForce(t *testing.T) {
	w := newClassWorld(t)
	w.put("", classFile)
	ask := func() <-chan wire.ClassVersion {
		answered := make(chan wire.ClassVersion, 1)
		go func() {
			out, err := w.try(context.WithoutCancel(t.Context()), request{method: http.MethodGet, path: "/v1/classes/ledger-close?version=1&poll=10s", key: w.declares})
			var v wire.ClassVersion
			if err != nil || json.Unmarshal(out.body, &v) != nil {
				t.Errorf("%v %s", err, out.body)
			}
			answered <- v
		}()
		return answered
	}
	answered := ask()
	w.sign(1)
	select {
	case v := <-answered:
		t.Fatalf("answered %+v before the partition follows", v)
	default:
	}
	w.inForce.Store(1)
	if v := receive(t, answered, "the version in force"); v.State != wire.VersionInForce || len(v.Signatures) != 1 || v.Signatures[0].Signer != "owner@dev.test" {
		t.Errorf("answered %+v; want it in force, signed by its owner", v)
	}
	out := w.get("/v1/classes/ledger-close?version=1&poll=0s")
	if out.status != 200 {
		t.Errorf("poll=0s: %d %s", out.status, out.body)
	}
}

func TestGetVersion_answersARejectionAtOnce(t *testing.T) {
	w := newClassWorld(t)
	w.put("", classFile)
	class, _ := w.p.control.Class("acme", "ledger-close")
	w.mustControl(control.Entry{Review: review.Reject{Tenant: "acme", Class: "ledger-close", Version: 1, Digest: class.Versions[0].Digest,
		By: review.Person{Issuer: "https://idp.test", Subject: "owner"}, Groups: []review.Group{"ledger-owners"}, Reason: "no guard yet", AtMS: 1}})
	var v wire.ClassVersion
	decode(t, w.get("/v1/classes/ledger-close?version=1&poll=10s"), &v)
	if v.State != wire.VersionRejected || v.Decision == nil || v.Decision.Reason != "no guard yet" {
		t.Errorf("got %+v; want it rejected, with the reason", v)
	}
	if out := w.get("/v1/classes/ledger-close?version=2"); out.status != 404 {
		t.Errorf("a version that is not there: %d %s; want 404", out.status, out.body)
	}
}

func TestGetVersion_thatHangsIsGivenUpWhenTheNodeStops(t *testing.T) {
	w := newClassWorld(t)
	w.put("", classFile)
	entered := make(chan struct{}, 1)
	w.p.inForce = func(lockcore.TenantID, lockcore.ClassName) uint64 {
		select {
		case entered <- struct{}{}:
		default:
		}
		return 0
	}
	answered := make(chan reply, 1)
	go func() {
		out, err := w.try(context.WithoutCancel(t.Context()), request{method: http.MethodGet, path: "/v1/classes/ledger-close?version=1&poll=10s", key: w.declares})
		if err != nil {
			t.Errorf("hanging request: %v", err)
		}
		answered <- out
	}()
	receive(t, entered, "the request")
	w.stop()
	if out := receive(t, answered, "the answer"); out.status != 503 || out.problem(t).Code != wire.CodeStopping {
		t.Errorf("%d %s; want stopping", out.status, out.body)
	}
}
