package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/internal/platform"
)

// adminClient speaks to the operator's socket of one node.
type adminClient struct{ http *http.Client }

const adminCallTime = 15 * time.Second

func newAdminClient(socket string) adminClient {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return adminClient{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: adminCallTime}}
}

func (a adminClient) call(ctx context.Context, method, path string, body []byte, header http.Header, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://node"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	res, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	const answerBytesMax = 4 << 20
	raw, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%s %s: answer %d that is no JSON: %w", method, path, res.StatusCode, err)
	}
	return nil
}

func (a adminClient) status(ctx context.Context, hashes bool) (platform.Status, error) {
	path := "/status"
	if hashes {
		path += "?hashes=1"
	}
	var s platform.Status
	err := a.call(ctx, http.MethodGet, path, nil, nil, &s)
	return s, err
}

func (a adminClient) operator(ctx context.Context) (operatorReply, error) {
	var o operatorReply
	err := a.call(ctx, http.MethodGet, "/operator", nil, nil, &o)
	return o, err
}

func (a adminClient) class(ctx context.Context, tenant, class string) (classReply, error) {
	var c classReply
	q := url.Values{"tenant": {tenant}, "class": {class}}
	err := a.call(ctx, http.MethodGet, "/class?"+q.Encode(), nil, nil, &c)
	return c, err
}

// apiKey asks what the node makes of an API key.
func (a adminClient) apiKey(ctx context.Context, key string) (keyReply, error) {
	var r keyReply
	err := a.call(ctx, http.MethodGet, "/api-key", nil, http.Header{"Authorization": {key}}, &r)
	return r, err
}

// adminClients speaks to whichever node leads the control group.
type adminClients []adminClient

// again is how long to wait before asking once more.
const again = 100 * time.Millisecond

// control carries a command out on the node that leads the control group, and asks until one answers or ctx ends. The
// command must be one that may be repeated. A refusal is an error.
func (all adminClients) control(ctx context.Context, e control.Entry) (control.Result, error) {
	body, err := e.Encode()
	if err != nil {
		return control.Result{}, err
	}
	last := errors.New("no node leads the control group")
	for {
		for _, a := range all {
			var r controlReply
			err := a.call(ctx, http.MethodPost, "/control", body, nil, &r)
			switch {
			case err != nil:
				last = err
			case r.Result == nil:
				last = errors.New(r.Error)
			case !r.Result.OK:
				return *r.Result, fmt.Errorf("refused: %s %s", r.Result.Reason, r.Result.Field)
			default:
				return *r.Result, nil
			}
		}
		if !pause(ctx, again) {
			return control.Result{}, errors.Join(ctx.Err(), last)
		}
	}
}

// pause waits, or returns false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
