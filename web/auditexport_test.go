package web_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// grants stores entries of a grant each, from index 1.
func grants(t *testing.T, s *audit.Store, log audit.Log, count int) {
	t.Helper()
	var entries []audit.Entry
	for i := range uint64(count) {
		entries = append(entries, entryOf(log, i+1, grantOf("k", i+1, auditTime+int64(i))))
	}
	if err := s.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func TestAuditExport_hasEverythingAndItsTrailer(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 1203) // more than two pages of an export
	n := auditWorld(t, s)
	for _, query := range []string{"", "&order=asc", "&proofs=true"} {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson" + query, key: goodKey})
		events, trailer := exported(t, out.body)
		if out.status != 200 || out.header.Get("Content-Type") != "application/x-ndjson" || trailer == nil {
			t.Fatalf("%s: %d %v, trailer %v", query, out.status, out.header, trailer)
		}
		if len(events) != 1203 || trailer.Rows != 1203 || trailer.NextCursor != "" || trailer.CompleteTo["partition-1"] != 1203 {
			t.Errorf("%s: %d events, trailer %+v", query, len(events), trailer)
		}
		if len(trailer.Checkpoints) != 3 || trailer.Checkpoints[1].Log != "partition-1" || trailer.Checkpoints[1].Rows != 1203 {
			t.Errorf("%s: checkpoints %+v", query, trailer.Checkpoints)
		}
	}
}

func TestAuditExport_goesOnFromItsCursor(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 25)
	n := auditWorld(t, s)
	var got []string
	cursor := ""
	for range 3 {
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson&order=asc&limit=10" + cursor, key: goodKey})
		events, trailer := exported(t, out.body)
		got = append(got, positions(events)...)
		if trailer == nil || (trailer.NextCursor == "") != (len(got) == 25) {
			t.Fatalf("after %d events: trailer %+v", len(got), trailer)
		}
		cursor = "&cursor=" + trailer.NextCursor
	}
	for i := range 25 {
		if i >= len(got) || got[i] != fmt.Sprintf("partition-1/%d/0", i+1) {
			t.Fatalf("got %v", got)
		}
	}
}

func TestAuditExport_itsProofsLeadToItsCheckpoints(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 21)
	project(t, s, 0, 1, audit.Event{Kind: "cluster_set", AtMS: auditTime, By: "operator@dev.test"})
	n := auditWorld(t, s)
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson&proofs=true", key: operatorKey})
	events, trailer := exported(t, out.body)
	if trailer == nil || len(events) != 22 {
		t.Fatalf("%d events, trailer %v", len(events), trailer)
	}
	for _, e := range events {
		at, _ := wire.ParseAuditPosition(e.Position)
		checkpoint := trailer.Checkpoints[at.Log]
		record := audit.Record{Incarnation: e.Proof.Incarnation, Log: audit.Log(at.Log), Index: at.Index, Ordinal: at.Ordinal, Leaf: e.Row,
			Hash: hashOf(t, e.Proof.Leaf), Tenant: e.Tenant, Kind: e.Kind, AtMS: int64(e.At), Class: e.Class, Key: e.Key, Request: e.Request,
			Token: e.Token, Epoch: e.Epoch, Version: e.Version, APIKey: e.APIKey, Holder: e.Holder, By: e.By}
		personal, salt := hashOf(t, e.Proof.Text), make([]byte, 16)
		if _, err := hex.Decode(salt, []byte(e.Proof.Salt)); err != nil {
			t.Fatal(err)
		}
		record.Personal, record.Salt = personal[:], salt
		if err := audit.VerifyRow(record, hashesOf(t, e.Proof.Inclusion), checkpoint.Rows, hashOf(t, checkpoint.Root)); err != nil {
			t.Errorf("%s: %v", e.Position, err)
		}
	}
}

func hashOf(t *testing.T, text string) (h audit.Hash) {
	t.Helper()
	if n, err := hex.Decode(h[:], []byte(text)); err != nil || n != len(h) {
		t.Fatalf("%q is no hash: %v", text, err)
	}
	return h
}

func hashesOf(t *testing.T, all []string) []audit.Hash {
	t.Helper()
	var hashes []audit.Hash
	for _, text := range all {
		hashes = append(hashes, hashOf(t, text))
	}
	return hashes
}

func TestAuditExport_ofCSVEndsWithItsTrailer(t *testing.T) {
	s := openAudit(t)
	e := grantOf("=cmd|' /C calc'!A0", 33, auditTime)
	e.Note = "said \"stop\",\nand left"
	project(t, s, 1, 1, e)
	n := auditWorld(t, s)
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=csv", key: goodKey})
	head := "position,row,at,kind,tenant,class,key,request,token,epoch,version,reason,api_key,count,unprotected,detail,holder,by,note,erased\r\n"
	row := `partition-1/1/0,0,2026-06-30T23:00:00.125Z,granted,acme,ledger-close,'=cmd|' /C calc'!A0,c0ffee0123456789.1,33,7,3,,good,,,,` +
		"host-a:4711,,\"said \"\"stop\"\",\nand left\",\r\n"
	if !strings.HasPrefix(string(out.body), head+row+"trailer,") || !strings.HasSuffix(string(out.body), "\r\n") {
		t.Errorf("%s\nwant %s%strailer,…", out.body, head, row)
	}
	records := recordsOfCSV(string(out.body))
	if last := records[len(records)-1]; !strings.Contains(last[15], `"rows":1}`) {
		t.Errorf("the trailer says %s", last[15])
	}
}

func TestAuditExport_whichFailsSaysSoInPlaceOfItsTrailer(t *testing.T) {
	s := openAudit(t)
	grants(t, s, 1, 600)
	broken := &brokenAudit{nodeAudit: nodeAudit{Store: s}, pagesGood: 1, err: audit.ErrBusy}
	n := start(t, &platform{leader: &self, control: controlLog(t), audit: broken}, options{})
	for format, want := range map[string]string{"ndjson": "\n{\"problem\":{", "csv": "\r\nproblem,"} {
		broken.asked = 0
		out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=" + format, key: goodKey})
		if !strings.Contains(string(out.body), want) || strings.Contains(string(out.body), "trailer") {
			t.Errorf("%s ends with %s; want a problem and no trailer", format, out.body[max(0, len(out.body)-300):])
		}
	}
	broken.asked = 1
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: goodKey})
	if p := out.problem(t); p.Code != wire.CodeNotReady {
		t.Errorf("before the first event: %s; want not_ready", out.body)
	}
}

// brokenAudit answers some pages and then fails.
type brokenAudit struct {
	nodeAudit
	asked, pagesGood int
	err              error
}

func (b *brokenAudit) Query(ctx context.Context, q audit.Query) (audit.Page, error) {
	b.asked++
	if b.asked > b.pagesGood {
		return audit.Page{}, b.err
	}
	return b.nodeAudit.Query(ctx, q)
}

// heldAudit holds every page until it is let go.
type heldAudit struct {
	nodeAudit
	asked chan struct{} // one for each page that is asked for
	let   chan struct{} // one for each page that may go
}

func (h heldAudit) Query(ctx context.Context, q audit.Query) (audit.Page, error) {
	h.asked <- struct{}{}
	select {
	case <-h.let:
	case <-ctx.Done():
		return audit.Page{}, ctx.Err()
	}
	return h.nodeAudit.Query(ctx, q)
}

func held(t *testing.T, events int) (heldAudit, *node) {
	t.Helper()
	s := openAudit(t)
	grants(t, s, 1, events)
	h := heldAudit{nodeAudit: nodeAudit{Store: s}, asked: make(chan struct{}, 100), let: make(chan struct{}, 100)}
	return h, start(t, &platform{leader: &self, control: controlLog(t), audit: h}, options{})
}

func TestAuditExport_ofANodeThatStopsHasATrailerToGoOnFrom(t *testing.T) {
	h, n := held(t, 1300)
	ended := make(chan reply, 1)
	go func() {
		out, err := n.try(context.WithoutCancel(t.Context()), request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: goodKey})
		if err != nil {
			out.body = []byte(err.Error())
		}
		ended <- out
	}()
	receive(t, h.asked, "the first page")
	h.let <- struct{}{}
	receive(t, h.asked, "the second page")
	n.stop()
	awaitAudit(t, "the node to stop", func() bool {
		_, err := n.try(t.Context(), request{method: http.MethodGet, path: "/healthz"})
		return err != nil
	})
	h.let <- struct{}{}
	out := receive(t, ended, "the export's end")
	events, trailer := exported(t, out.body)
	if trailer == nil || trailer.NextCursor == "" || len(events) != 1000 || trailer.Rows != 1000 {
		t.Errorf("%d events, trailer %+v; want two pages and a cursor", len(events), trailer)
	}
}

func TestAuditExport_endsWhenItsClientGoes(t *testing.T) {
	h, n := held(t, 1300)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := n.try(ctx, request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: goodKey})
		gone <- err
	}()
	receive(t, h.asked, "the first page")
	h.let <- struct{}{}
	receive(t, h.asked, "the second page")
	leave()
	if err := receive(t, gone, "the client to go"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client went with %v", err)
	}
	awaitAudit(t, "the export to end", func() bool { return strings.Contains(n.log.String(), "route=/v1/audit") })
	if log := n.log.String(); strings.Contains(log, "request failed") {
		t.Errorf("a client that goes is told as a failure:\n%s", log)
	}
}

func TestAuditExport_onlySoManyOfATenantAtATime(t *testing.T) {
	h, n := held(t, 3)
	ended := make(chan reply, 8)
	export := func() {
		out, err := n.try(context.WithoutCancel(t.Context()), request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: goodKey})
		if err != nil {
			out.body = []byte(err.Error())
		}
		ended <- out
	}
	for range 4 {
		go export()
		receive(t, h.asked, "an export to begin")
	}
	out := n.do(t, request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: goodKey})
	if p := out.problem(t); p.Code != wire.CodeOverloaded {
		t.Errorf("the fifth export: %s; want overloaded", out.body)
	}
	go func() {
		out, err := n.try(context.WithoutCancel(t.Context()), request{method: http.MethodGet, path: "/v1/audit?format=ndjson", key: foreignKey})
		if err != nil {
			out.body = []byte(err.Error())
		}
		ended <- out
	}()
	receive(t, h.asked, "another tenant's export to begin")
	for range 5 {
		h.let <- struct{}{}
	}
	for range 5 {
		if out := receive(t, ended, "an export's end"); out.status != 200 {
			t.Errorf("an export ends with %d %s", out.status, out.body)
		}
	}
}

func TestAuditExport_isTheFormThatAcceptLikesBest(t *testing.T) {
	s := openAudit(t)
	n := auditWorld(t, s)
	for accept, want := range map[string]string{"": "application/json", "*/*": "application/json", "text/csv": "text/csv",
		"application/x-ndjson": "application/x-ndjson", "text/html, text/csv;q=0.5, application/x-ndjson;q=0.9": "application/x-ndjson",
		"application/json;q=0.1, text/csv": "text/csv", "image/png": "application/json", "text/csv;q=0": "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.base+"/v1/audit", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+goodKey)
		r.Header.Set("Accept", accept)
		resp, err := n.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); got != want {
			t.Errorf("Accept: %s is answered with %s; want %s", accept, got, want)
		}
	}
}
