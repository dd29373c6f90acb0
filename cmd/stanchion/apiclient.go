package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
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
	caFile    string
	profile   string
	output    string
}

// flags adds the flags that all commands with a client have. output is whether the command prints a table or JSON.
func (o *clientOptions) flags(c *cobra.Command, output bool) {
	c.Flags().StringVar(&o.endpoints, "endpoints", "", "addresses of the nodes, separated by commas (default $STANCHION_ENDPOINTS)")
	c.Flags().StringVar(&o.keyFile, "api-key-file", "", "file that holds the API key (default: the key in $STANCHION_API_KEY)")
	c.Flags().StringVar(&o.caFile, "ca-file", "", "certificates of the authorities to trust at https endpoints (default $STANCHION_CA_FILE)")
	c.Flags().StringVar(&o.profile, "profile", "", "profile to take what is not given from (default $STANCHION_PROFILE, or \"default\")")
	if output {
		outputFlag(c, &o.output)
	}
}

// client makes the client, or says what is missing and how to give it.
func (o *clientOptions) client() (*apiClient, error) {
	s, err := o.settings()
	if err != nil {
		return nil, err
	}
	switch {
	case s.endpoints.value == "":
		return nil, withRemedy(fmt.Errorf("%w: no cluster is named", errUsage),
			"give --endpoints, set STANCHION_ENDPOINTS to the nodes' addresses, or put them into "+profilePlace(s))
	case s.apiKey.value == "":
		return nil, withRemedy(fmt.Errorf("%w: no API key is given", errUsage),
			"set STANCHION_API_KEY, give --api-key-file, or put api_key_file into "+profilePlace(s))
	}
	c := &apiClient{key: s.apiKey.value, from: s, answerTime: apiCallTime + apiAttemptTime, patience: apiCallTime}
	if c.tls, err = s.tls(); err != nil {
		return nil, err
	}
	c.http = &http.Client{CheckRedirect: stay, Transport: &http.Transport{DisableCompression: true, TLSClientConfig: c.tls,
		ResponseHeaderTimeout: apiAttemptTime, TLSHandshakeTimeout: apiAttemptTime, DialContext: (&net.Dialer{Timeout: apiDialTime}).DialContext}}
	for e := range strings.SplitSeq(s.endpoints.value, ",") {
		e = strings.TrimRight(strings.TrimSpace(e), "/")
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, withRemedy(fmt.Errorf("%w: endpoint %q of %s is no address like http://host:port", errUsage, e, s.endpoints.source),
				"write it with its scheme; separate several by commas")
		}
		c.endpoints = append(c.endpoints, e)
	}
	return c, nil
}

// profilePlace is where a profile would be looked for.
func profilePlace(s settings) string {
	switch {
	case s.file == "":
		return "a profile, once HOME or XDG_CONFIG_HOME names a folder for it"
	case s.profile == "":
		return "the profile " + defaultProfile + " in " + s.file
	}
	return "the profile " + s.profile + " in " + s.file
}

// stay follows no redirect: nodes send none, and after one a change would be repeated as a GET, whose answer looks like that
// of a change that was made.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// json reports whether answers are to be printed as they came.
func (o *clientOptions) json() bool { return o.output == "json" }

// apiClient speaks to the API of whichever node answers.
type apiClient struct {
	endpoints  []string
	key        string
	tls        *tls.Config // for https endpoints; nil: as the machine trusts
	from       settings    // where the above came from
	http       *http.Client
	answerTime time.Duration // for a call and its whole answer: a node that stops in the middle is not waited for
	patience   time.Duration // for all attempts together; 0: each node is asked once
}

const (
	apiCallTime    = 30 * time.Second // for all attempts together
	apiAttemptTime = 20 * time.Second // to the answer's first byte; above what a request may hang
	apiDialTime    = 3 * time.Second
	apiAbsentTime  = 5 * time.Second // while no node takes a connection: long enough for one that is being started
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

// send is call without reading the answer, whose body the caller closes. An error of a call is a *callError.
func (c *apiClient) send(ctx context.Context, r apiRequest) (*http.Response, error) {
	body, contentType, err := r.encode()
	if err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	began, wait := time.Now(), 50*time.Millisecond
	for {
		res, round := c.round(ctx, r, body, contentType)
		switch {
		case res != nil:
			return res, nil
		case round.final, round.absent && time.Since(began) > apiAbsentTime:
			return nil, &callError{round.last, c.from}
		case !pause(patience, wait/2+rand.N(wait/2)):
			return nil, &callError{fmt.Errorf("no node decided: %w", round.last), c.from}
		}
		wait = min(2*wait, apiPauseMax)
	}
}

// callRound is how it went to ask one node after another.
type callRound struct {
	last   error
	final  bool // it would be the same again
	absent bool // no node took the connection
}

// round asks one node after another until one has decided.
func (c *apiClient) round(ctx context.Context, r apiRequest, body []byte, contentType string) (*http.Response, callRound) {
	round := callRound{final: true, absent: true}
	for _, endpoint := range c.endpoints {
		res, err := c.attempt(ctx, endpoint, r, body, contentType)
		if err == nil {
			return res, callRound{}
		}
		round.last = err
		if !sendAgain(r, err) {
			return nil, callRound{last: err, final: true}
		}
		round.final = round.final && (distrusted(err) || errors.Is(err, errForeign))
		round.absent = round.absent && neverSent(err)
	}
	return nil, round
}

// callError is a call that failed, with what says whom it was sent to and as whom.
type callError struct {
	err  error
	from settings
}

func (e *callError) Error() string { return e.err.Error() }

// Unwrap is what went wrong.
func (e *callError) Unwrap() error { return e.err }

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

// neverSent reports whether there was no connection at all, or none that could be trusted with a request.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || distrusted(err)
}

// distrusted reports whether the other side did not prove who it is, which it does not do the next time either.
func distrusted(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return certificate || noTLS(err)
}

// noTLS reports whether https was spoken to a port that does not.
func noTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch)
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
	kind := errForeign
	if res.StatusCode >= http.StatusInternalServerError {
		kind = errForeignFailure
	}
	return fmt.Errorf("%w: status %s from %s", kind, visible(res.Status), res.Request.URL.Host)
}

var (
	// errForeign is an answer that no node gives, and that will be the same again at the same address.
	errForeign = errors.New("this is no answer of Stanchion")
	// errForeignFailure is a failure of something in between, which may pass.
	errForeignFailure = errors.New("this is no answer of Stanchion, but something in between failed")
)
