package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// clientOptions say which cluster a command speaks to, and as whom. The API key comes from the environment or a file: a
// command line can be read by everybody on the machine.
type clientOptions struct {
	endpoints string
	keyFile   string
	output    string
}

// flags adds the flags that all commands with a client have. output is whether the command prints a table or JSON.
func (o *clientOptions) flags(c *cobra.Command, output bool) {
	c.Flags().StringVar(&o.endpoints, "endpoints", "", "addresses of the nodes, separated by commas (default $STANCHION_ENDPOINTS)")
	c.Flags().StringVar(&o.keyFile, "api-key-file", "", "file that holds the API key (default: the key in $STANCHION_API_KEY)")
	if output {
		c.Flags().StringVar(&o.output, "output", "table", "table or json")
	}
}

// client makes the client, or says what is missing and how to give it.
func (o *clientOptions) client() (*apiClient, error) {
	if o.output != "" && o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("%w: --output %s is neither table nor json", errUsage, o.output)
	}
	endpoints := o.endpoints
	if endpoints == "" {
		endpoints = os.Getenv("STANCHION_ENDPOINTS")
	}
	key, err := o.apiKey()
	switch {
	case err != nil:
		return nil, err
	case endpoints == "":
		return nil, fmt.Errorf("%w: no cluster is named: give --endpoints, or set STANCHION_ENDPOINTS to the nodes' addresses", errUsage)
	case key == "":
		return nil, fmt.Errorf("%w: no API key: set STANCHION_API_KEY, or give --api-key-file", errUsage)
	}
	c := &apiClient{key: key, answerTime: apiCallTime + apiAttemptTime, http: &http.Client{CheckRedirect: stay,
		Transport: &http.Transport{DisableCompression: true, ResponseHeaderTimeout: apiAttemptTime, TLSHandshakeTimeout: apiAttemptTime,
			DialContext: (&net.Dialer{Timeout: apiDialTime}).DialContext}}}
	for e := range strings.SplitSeq(endpoints, ",") {
		e = strings.TrimRight(strings.TrimSpace(e), "/")
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("%w: endpoint %q is no address like http://host:port", errUsage, e)
		}
		c.endpoints = append(c.endpoints, e)
	}
	return c, nil
}

// stay follows no redirect: nodes send none, and after one a change would be repeated as a GET, whose answer looks like that
// of a change that was made.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (o *clientOptions) apiKey() (string, error) {
	if o.keyFile == "" {
		return os.Getenv("STANCHION_API_KEY"), nil
	}
	b, err := os.ReadFile(o.keyFile)
	if err != nil {
		return "", fmt.Errorf("read API key: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// json reports whether answers are to be printed as they came.
func (o *clientOptions) json() bool { return o.output == "json" }

// apiClient speaks to the API of whichever node answers.
type apiClient struct {
	endpoints  []string
	key        string
	http       *http.Client
	answerTime time.Duration // for a call and its whole answer: a node that stops in the middle is not waited for
}

const (
	apiCallTime    = 30 * time.Second // for all attempts together
	apiAttemptTime = 20 * time.Second // to the answer's first byte; above what a request may hang
	apiDialTime    = 3 * time.Second
	apiPauseMax    = 2 * time.Second
	apiAnswerMax   = 64 << 20
)

// apiRequest is one call. A body is JSON unless contentType says otherwise.
type apiRequest struct {
	method      string
	path        string
	query       url.Values
	body        any // nil; []byte is sent as it is
	contentType string
	accept      string
	// once: repeating it would not be the same, so that it is sent again only when nothing was done.
	once bool
}

// call sends a request to one node after another until one has decided, and reads its JSON answer into answer, unless
// that is nil. It returns the answer's status. A problem that the cluster answered is a *wire.Problem.
func (c *apiClient) call(ctx context.Context, r apiRequest, answer any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.answerTime)
	defer cancel()
	res, err := c.send(ctx, r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if answer == nil {
		return res.StatusCode, nil
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, apiAnswerMax))
	if err != nil {
		return res.StatusCode, fmt.Errorf("read the answer to %s %s: %w", r.method, r.path, err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return res.StatusCode, fmt.Errorf("the answer to %s %s is no JSON of this release: %w", r.method, r.path, err)
	}
	return res.StatusCode, nil
}

// send is call without reading the answer, whose body the caller closes.
func (c *apiClient) send(ctx context.Context, r apiRequest) (*http.Response, error) {
	body, contentType, err := r.encode()
	if err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, apiCallTime)
	defer cancel()
	wait := 50 * time.Millisecond
	for {
		var last error
		for _, endpoint := range c.endpoints {
			res, err := c.attempt(ctx, endpoint, r, body, contentType)
			if err == nil || !sendAgain(r, err) {
				return res, err
			}
			last = err
		}
		if !pause(patience, wait/2+rand.N(wait/2)) {
			return nil, fmt.Errorf("no node decided: %w", last)
		}
		wait = min(2*wait, apiPauseMax)
	}
}

func (r apiRequest) encode() (body []byte, contentType string, err error) {
	contentType = r.contentType
	switch b := r.body.(type) {
	case nil:
		return nil, "", nil
	case []byte:
		return b, contentType, nil
	default:
		body, err = json.Marshal(b)
		return body, "application/json", err
	}
}

// sendAgain reports whether a failed request is to be sent again: nothing was done, or repeating it is the same.
func sendAgain(r apiRequest, err error) bool {
	p, decided := errors.AsType[*wire.Problem](err)
	switch {
	case errors.Is(err, errRedirected):
		return false
	case !decided:
		return !r.once || neverSent(err)
	case p.Code == wire.CodeNotReady, p.Code == wire.CodeNotLeader, p.Code == wire.CodeStopping, p.Code == wire.CodeNoQuorum:
		return true
	}
	return p.Code == wire.CodeOutcomeUnknown && !r.once
}

// outcomeUnknown reports whether a failed request may have been carried out all the same.
func outcomeUnknown(err error) bool {
	if p, decided := errors.AsType[*wire.Problem](err); decided {
		return p.Code == wire.CodeOutcomeUnknown
	}
	return !neverSent(err) && !errors.Is(err, errRedirected)
}

// neverSent reports whether there was no connection at all.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func (c *apiClient) attempt(ctx context.Context, endpoint string, r apiRequest, body []byte, contentType string) (*http.Response, error) {
	address := endpoint + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < http.StatusMultipleChoices {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode < http.StatusBadRequest {
		return nil, fmt.Errorf("%w: %s sends to %q; give the address that answers itself", errRedirected, res.Request.URL.Host,
			res.Header.Get("Location"))
	}
	return nil, problemOf(res)
}

// errRedirected says that something in between sent the request elsewhere, and that nothing was done.
var errRedirected = errors.New("this is no address of a node")

// problemOf reads the problem that an answer is.
func problemOf(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	p := new(wire.Problem)
	if err == nil && json.Unmarshal(raw, p) == nil && p.Code != "" {
		return p
	}
	return fmt.Errorf("status %s from %s, which is no answer of Stanchion: is the address right?", visible(res.Status), res.Request.URL.Host)
}
