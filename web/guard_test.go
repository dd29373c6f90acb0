package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/lockcore/leader"
)

const plainReport = `{"report_id":"` + session + `.7","class":"ledger-close","key":"2026-06","checks":12,` +
	`"rejections":[{"token":32,"highest":33,"at":"2026-06-30T23:00:00.125Z","count":1}]}`

func reportWith(body string) request {
	return request{method: http.MethodPost, path: "/v1/guard/reports", key: guardKey, body: body}
}

// counting is a partition that keeps the report that it is given.
func counting(given *lockcore.ReportGuard) *locks {
	return &locks{command: func(_ context.Context, c lockcore.Command) (lockcore.Result, error) {
		*given = c.(lockcore.ReportGuard)
		return lockcore.Result{Outcome: lockcore.Done}, nil
	}}
}

func TestGuardReport_isHandedOver(t *testing.T) {
	var given lockcore.ReportGuard
	n := leading(t, counting(&given))
	id, _ := lockcore.ParseSessionID(session)
	want := lockcore.ReportGuard{Tenant: "acme", Class: "ledger-close", Key: "2026-06", Reporter: lockcore.ReporterID(id), Sequence: 7,
		Checks: 12, Rejections: []lockcore.Rejection{{Token: 32, Highest: 33, Count: 1, AtMS: 1_782_860_400_125}}, APIKey: "good"}
	for range 2 {
		out := n.do(t, reportWith(plainReport))
		if out.status != http.StatusNoContent || len(out.body) != 0 || !reflect.DeepEqual(given, want) {
			t.Errorf("%d %s, the partition was given %+v; want 204 and %+v", out.status, out.body, given, want)
		}
	}
	n.do(t, reportWith(`{"report_id":"`+session+`.8","class":"c","key":"k","checks":0,"rejections":[]}`))
	if given.Sequence != 8 || given.Checks != 0 || len(given.Rejections) != 0 {
		t.Errorf("an empty report arrives as %+v", given)
	}
}

// What the Go guard sends is what is read here.
func TestGuardReport_takesWhatTheClientWrites(t *testing.T) {
	var given lockcore.ReportGuard
	n := leading(t, counting(&given))
	report := wire.GuardReport{ReportID: session + ".1", Class: "c", Key: "\u202e\"🔒\\", Checks: lockcore.CountMax, Rejections: []wire.GuardRejection{}}
	for i := range uint64(lockcore.RejectionsMax) {
		report.Rejections = append(report.Rejections, wire.GuardRejection{Token: i, Highest: lockcore.CountMax, At: time.UnixMilli(int64(i)).UTC(), Count: i + 1})
	}
	body, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if out := n.do(t, reportWith(string(body))); out.status != http.StatusNoContent {
		t.Fatalf("%d %s; want 204", out.status, out.body)
	}
	if string(given.Key) != report.Key || given.Checks != report.Checks || len(given.Rejections) != len(report.Rejections) {
		t.Fatalf("it arrives as %+v", given)
	}
	for i, r := range given.Rejections {
		if r != (lockcore.Rejection{Token: lockcore.Token(i), Highest: lockcore.CountMax, Count: uint64(i) + 1, AtMS: int64(i)}) {
			t.Errorf("rejection %d arrives as %+v", i, r)
		}
	}
}

func TestGuardReport_isReadStrictly(t *testing.T) {
	n := leading(t, &locks{command: func(context.Context, lockcore.Command) (lockcore.Result, error) {
		t.Error("a bad report reached the partition")
		return lockcore.Result{}, leader.ErrNotFound
	}})
	rejection := `{"token":32,"highest":33,"at":"2026-06-30T23:00:00Z","count":1}`
	with := func(old, replacement string) string {
		body := strings.Replace(plainReport, old, replacement, 1)
		if body == plainReport {
			t.Fatalf("%s is not in the report", old)
		}
		return body
	}
	list := func(rejections string) string {
		return `{"report_id":"` + session + `.7","class":"c","key":"k","checks":1,"rejections":` + rejections + `}`
	}
	for _, test := range []struct{ body, field string }{
		{with(`"report_id":"`+session+`.7",`, ""), "report_id"}, {with(session+".7", session), "report_id"}, {with(".7", ".0"), "report_id"},
		{with(".7", ".07"), "report_id"}, {with(".7", ".9007199254740992"), "report_id"}, {with(session, strings.Repeat("0", 32)), "report_id"},
		{with(session, strings.ToUpper(session)), "report_id"}, {with(`"class":"ledger-close",`, ""), "class"}, {with(`"ledger-close"`, `"a/b"`), "class"},
		{with(`"key":"2026-06",`, ""), "key"}, {with(`"2026-06"`, `""`), "key"}, {with(`"checks":12,`, ""), "checks"}, {with(`:12,`, `:-1,`), "checks"},
		{with(`:12,`, `:1.5,`), ""}, {with(`:12,`, `:9007199254740992,`), "checks"}, {with(`:12,`, `:012,`), ""}, {with(`:12,`, `:"12",`), "checks"},
		{with(`,"rejections":[{"token":32,"highest":33,"at":"2026-06-30T23:00:00.125Z","count":1}]`, ""), "rejections"},
		{with(`"checks"`, `"reporter":"x","checks"`), "reporter"}, {with(`"checks":12`, `"checks":12,"checks":12`), "checks"},
		{list(`null`), "rejections"}, {list(`{}`), "rejections"}, {list(`[` + rejection + `,]`), "rejections"}, {list(`[{}]`), "rejections"},
		{list(`[{"token":33,"highest":33,"at":"2026-06-30T23:00:00Z","count":1}]`), "rejections"},
		{list(`[{"token":32,"highest":33,"at":"2026-06-30T23:00:00Z","count":0}]`), "rejections"},
		{list(`[{"token":32,"highest":33,"at":"30 June","count":1}]`), "rejections"},
		{list(`[{"token":32,"highest":33,"at":"1931-01-01T00:00:00Z","count":1}]`), "rejections"},
		{list(`[{"token":32,"highest":9007199254740992,"at":"2026-06-30T23:00:00Z","count":1}]`), "rejections"},
		{list(`[{"token":32,"highest":33,"at":"2026-06-30T23:00:00Z","count":1,"by":"x"}]`), "rejections"},
		{list(`[{"token":32,"token":32,"highest":33,"at":"2026-06-30T23:00:00Z"}]`), "rejections"},
		{list(`[` + strings.Repeat(rejection+",", lockcore.RejectionsMax) + rejection + `]`), "rejections"},
		{plainReport + "{}", ""},
	} {
		out := n.do(t, reportWith(test.body))
		if p := out.problem(t); p.Code != wire.CodeInvalidRequest || p.Field != test.field {
			t.Errorf("%.120s: %s; want invalid_request of %q", test.body, out.body, test.field)
		}
	}
}

func TestGuardReport_saysWhatItWasRefusedFor(t *testing.T) {
	for reason, want := range map[lockcore.Reason]wire.Code{lockcore.RefusedUnknown: wire.CodeNotFound, lockcore.RefusedStaleEpoch: wire.CodeNotLeader,
		lockcore.RefusedInvalid: wire.CodeInternal} {
		n := leading(t, &locks{command: func(context.Context, lockcore.Command) (lockcore.Result, error) {
			return lockcore.Result{Outcome: lockcore.Refused, Reason: reason}, nil
		}})
		if p := n.do(t, reportWith(plainReport)).problem(t); p.Code != want {
			t.Errorf("refused for %s: %s; want %s", reason, p.Code, want)
		}
	}
	for err, want := range map[error]wire.Code{leader.ErrOverloaded: wire.CodeOverloaded, leader.ErrUnknownOutcome: wire.CodeOutcomeUnknown} {
		n := leading(t, &locks{command: func(context.Context, lockcore.Command) (lockcore.Result, error) {
			return lockcore.Result{}, fmt.Errorf("command: %w", err)
		}})
		if p := n.do(t, reportWith(plainReport)).problem(t); p.Code != want {
			t.Errorf("%v: %s; want %s", err, p.Code, want)
		}
	}
}
