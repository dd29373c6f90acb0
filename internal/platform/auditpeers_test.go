package platform

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
)

// auditNode is a node with nothing but its audit.
func auditNode(t *testing.T) *Platform {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := audit.Open(t.Context(), audit.Config{Path: filepath.Join(t.TempDir(), "audit.db"), Incarnation: 1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a := newAuditor(log)
	a.store, a.projector = store, audit.NewProjector(audit.ProjectorConfig{Store: store, Logger: log})
	return &Platform{log: log, audit: a}
}

// reaches lets a node ask another, by whatever name.
func (p *Platform) reaches(t *testing.T, other *Platform) {
	t.Helper()
	mux := http.NewServeMux()
	other.answerAudit(mux)
	p.asks(t, mux)
}

func (p *Platform) asks(t *testing.T, answers http.Handler) {
	t.Helper()
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	p.forward = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	t.Cleanup(p.forward.CloseIdleConnections)
}

func (p *Platform) stores(t *testing.T, log audit.Log, from, to uint64, events ...audit.Event) {
	t.Helper()
	var entries []audit.Entry
	for i := from; i <= to; i++ {
		entries = append(entries, audit.Entry{Log: log, Index: i, Salt: [16]byte{byte(log), byte(i)}, Events: events})
	}
	if err := p.audit.store.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func (p *Platform) lacks(t *testing.T, log audit.Log, from, to uint64) {
	t.Helper()
	if err := p.audit.store.RecordGap(t.Context(), log, from, to, "test"); err != nil {
		t.Fatal(err)
	}
}

// stand is a node's standing.
func (p *Platform) stand(t *testing.T) auditStanding {
	t.Helper()
	s, err := p.audit.standing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *Platform) gaps(t *testing.T) string {
	t.Helper()
	text := ""
	for _, g := range p.stand(t).Gaps {
		text += fmt.Sprintf("%d: %d to %d; ", g.Log, g.From, g.To)
	}
	return text
}

func oneEvent() audit.Event { return audit.Event{Kind: "granted", Tenant: "acme", Key: "k", AtMS: 1} }

func TestFillFrom_takesWhatThePeerHasBehindItsOwnGap(t *testing.T) {
	a, b := auditNode(t), auditNode(t)
	a.reaches(t, b)
	a.lacks(t, 1, 1, 30)
	b.stores(t, 1, 1, 4, oneEvent())
	b.lacks(t, 1, 5, 10)
	b.stores(t, 1, 11, 40, oneEvent())
	if err := a.fillFrom(t.Context(), a.stand(t), "n2", b.stand(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := a.gaps(t), "1: 5 to 10; "; got != want {
		t.Errorf("what is missing still: got %s, want %s", got, want)
	}
}

func TestFillFrom_goesOnBehindAGapThatCannotBeFilled(t *testing.T) {
	a, b := auditNode(t), auditNode(t)
	a.reaches(t, b)
	for log := audit.Log(1); log <= 3; log++ {
		a.lacks(t, log, 1, 9)
	}
	b.stores(t, 1, 1, 9, oneEvent())
	b.stores(t, 3, 1, 9, oneEvent())
	said := b.stand(t)
	said.Positions = append(said.Positions, audit.Position{Log: 2, Durable: 9}) // and has lost it since
	if err := a.fillFrom(t.Context(), a.stand(t), "n2", said); err == nil {
		t.Error("log 2: got no error, want one")
	}
	if got, want := a.gaps(t), "2: 1 to 9; "; got != want {
		t.Errorf("what is missing still: got %s, want %s", got, want)
	}
}

// A session may hold 10,000 leases, which all end in one entry; keys may have 512 bytes.
func TestFillFrom_takesTheLargestEntry(t *testing.T) {
	a, b := auditNode(t), auditNode(t)
	a.reaches(t, b)
	ended := audit.Event{Kind: "ended", Tenant: "acme", Class: "ledger-close", Key: strings.Repeat("<", 512),
		Request: strings.Repeat("0", 20), Token: 1 << 40, Reason: "session_ended", Holder: strings.Repeat("&", 128), AtMS: 1 << 40}
	events := make([]audit.Event, 0, 20_000)
	for range 10_000 {
		events = append(events, ended, ended)
	}
	b.stores(t, 1, 1, 1, events...)
	b.stores(t, 1, 2, 3, oneEvent())
	a.lacks(t, 1, 1, 3)
	if err := a.fillFrom(t.Context(), a.stand(t), "n2", b.stand(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := a.gaps(t), ""; got != want {
		t.Errorf("what is missing still: got %s, want nothing", got)
	}
	if x, y := a.stand(t).position(1), b.stand(t).position(1); x != y {
		t.Errorf("positions: got %+v, want %+v", x, y)
	}
}

func TestFillFrom_alarmsAboutRowsThatAreNotWhatTheySay(t *testing.T) {
	a, b := auditNode(t), auditNode(t)
	b.stores(t, 1, 1, 9, oneEvent())
	a.lacks(t, 1, 1, 9)
	changed := true
	a.asks(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := b.audit.store.Peer(r.Context(), 1, param(r, "from"), param(r, "to"), 100)
		if changed {
			rows.Rows[3].Key = "else"
		}
		answerOr(w, rows, err)
	}))
	if err := a.fillFrom(t.Context(), a.stand(t), "n2", b.stand(t)); err == nil || a.audit.part().Why == "" {
		t.Errorf("changed rows: got %v, and of the audit %+v, want an error and why it is not well", err, a.audit.part())
	}
	changed = false
	if err := a.fillFrom(t.Context(), a.stand(t), "n2", b.stand(t)); err != nil || a.audit.part().Why != "" || a.gaps(t) != "" {
		t.Errorf("true rows: got %v, of the audit %+v, gaps %s, want all well", err, a.audit.part(), a.gaps(t))
	}
}
