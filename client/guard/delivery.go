package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Times of delivery. The pause doubles from the first to the longest.
const (
	attemptTime   = 10 * time.Second
	pauseFirst    = 200 * time.Millisecond
	pauseLongest  = 30 * time.Second
	answerBytes   = 4 << 10 // read of an answer, for the log and to use the connection again
	answerInLog   = 256
	reportsPath   = "/v1/guard/reports"
	reportsAnswer = http.StatusNoContent
)

// verdict is what an answer means for a report.
type verdict uint8

const (
	undecided verdict = iota // send it again, to the next endpoint
	accepted
	refused // it will never be accepted
)

// deliver sends one report until it is answered, always with the same bytes: the next report waits for it, because the
// service counts each id once and in order. The error is that of ctx alone. Attempts end with ctx; pauses between rounds
// over all endpoints grow to half a minute.
func (r *Reporter) deliver(ctx context.Context, body report) (ok bool, err error) {
	raw, err := json.Marshal(body)
	if err != nil { // strings, numbers and times of this era always marshal
		r.cfg.Log.Error("guard report is no JSON", "report_id", body.ReportID, "error", err)
		return false, nil
	}
	for longest := pauseFirst; ; longest = min(2*longest, pauseLongest) {
		for range r.cfg.Endpoints {
			switch v, why := r.attempt(ctx, raw); {
			case v == accepted:
				return true, nil
			case v == refused:
				r.cfg.Log.Error("guard report refused", "report_id", body.ReportID, "class", body.Class, "endpoint", r.endpoint(), "answer", why)
				return false, nil
			case ctx.Err() != nil:
				return false, ctx.Err()
			default:
				r.cfg.Log.Warn("guard report not delivered yet", "report_id", body.ReportID, "endpoint", r.endpoint(), "cause", why)
			}
			r.first = (r.first + 1) % len(r.cfg.Endpoints)
		}
		if err := pause(ctx, jitter(longest)); err != nil {
			return false, err
		}
	}
}

func (r *Reporter) endpoint() string { return r.cfg.Endpoints[r.first] }

// attempt sends a report to one endpoint.
func (r *Reporter) attempt(ctx context.Context, raw []byte) (v verdict, why string) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint()+reportsPath, bytes.NewReader(raw))
	if err != nil {
		return undecided, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+r.cfg.APIKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.cfg.Client.Do(req)
	if err != nil {
		return undecided, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes)) // for the log only
	return judge(resp.StatusCode), fmt.Sprintf("%s %.*s", resp.Status, answerInLog, answer)
}

// judge reads a status. Anything but the one success and the client's own mistakes comes from something in between, or
// from a node that cannot answer now.
func judge(status int) verdict {
	switch {
	case status == reportsAnswer:
		return accepted
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return undecided
	case 400 <= status && status < 500:
		return refused
	}
	return undecided
}

// jitter is a random time between half of the longest and all of it.
func jitter(longest time.Duration) time.Duration { return longest/2 + rand.N(longest/2+1) }

// pause waits, unless ctx ends first, whose error it returns then.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
