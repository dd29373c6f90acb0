package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// transcriptKey is the API key that clients are given.
const transcriptKey = "stn_transcript"

// step is one statement of a transcript. testdata/transcripts/README.md has the language.
type step struct {
	line    int
	words   []string
	headers [][2]string
	body    string // JSON; empty: none
}

func (s step) String() string {
	return strings.TrimSpace(fmt.Sprintf("line %d: %s %s", s.line, strings.Join(s.words, " "), s.body))
}

// parseTranscript reads a transcript.
func parseTranscript(text string) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(text, "\n") {
		indented := strings.TrimLeft(line, " ") != line
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case !indented:
			words, body, _ := strings.Cut(line+" ", " {")
			if body != "" {
				body = "{" + body
			}
			steps = append(steps, step{line: i + 1, words: strings.Fields(words), body: body})
		case len(steps) == 0:
			return nil, fmt.Errorf("line %d continues nothing", i+1)
		default:
			steps[len(steps)-1].more(line)
		}
	}
	return steps, nil
}

var headerLine = regexp.MustCompile(`^([A-Z][A-Za-z-]*): (.*)$`)

func (s *step) more(line string) {
	if m := headerLine.FindStringSubmatch(line); m != nil && s.body == "" {
		s.headers = append(s.headers, [2]string{m[1], m[2]})
		return
	}
	s.body = strings.TrimSpace(s.body + " " + line)
}

// arrival is a request that a client has sent, and is waiting for its answer.
type arrival struct {
	node, method, path, body string
	fault                    string // what no request may have; empty: nothing
	hedge                    bool   // a heartbeat like one that was not answered, or just now
	reply                    chan reply
	answered                 time.Time
}

func (a *arrival) String() string {
	return strings.TrimSpace(a.method + " " + a.path + " " + a.body + " at " + a.node)
}

// reply is how a request is answered; status 0: the connection is dropped.
type reply struct {
	status  int
	headers [][2]string
	body    string
	after   time.Duration
}

// report is what a driver says of its client.
type report struct {
	fields  map[string]any
	actions int64 // how much the player had done by then
}

func (r report) field(name string) string { s, _ := r.fields[name].(string); return s }

// player plays one transcript. Its fields are its own goroutine's, but for channels and atomics.
type player struct {
	limit    time.Duration // for anything that must come about
	steps    []step
	nodes    []string
	names    map[string]string // what $NAMES stand for
	named    map[string]*arrival
	latest   *arrival
	pending  []*arrival // in order
	seen     []*arrival
	reports  []report
	may      []step
	actions  atomic.Int64
	over     chan struct{} // closed when the script is: all is answered in a general way
	arrivals chan *arrival
	said     chan report
	commands chan []byte // bounded by the length of a script
}

// driver runs a client: it reads commands and writes reports, JSON on lines, until commands end. It waits for its client's end.
type driver func(ctx context.Context, commands io.Reader, reports io.Writer) error

// play plays a transcript with a driver, and says in what the client does not keep to it.
func play(ctx context.Context, text string, drive driver, limit time.Duration) error {
	steps, err := parseTranscript(text)
	if err != nil {
		return err
	}
	p := &player{limit: limit, steps: steps, names: map[string]string{}, named: map[string]*arrival{}, over: make(chan struct{}),
		arrivals: make(chan *arrival), said: make(chan report), commands: make(chan []byte, len(steps)+1)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.serve(ctx)()
	ended := p.drive(ctx, drive)
	err = p.run()
	return errors.Join(err, p.finish(err == nil, ended, cancel))
}

// serve opens the nodes; the result closes them.
func (p *player) serve(ctx context.Context) func() {
	count := 1
	if len(p.steps) > 0 && p.steps[0].words[0] == "nodes" {
		count, _ = strconv.Atoi(p.steps[0].words[1])
		p.steps = p.steps[1:]
	}
	var servers []*httptest.Server
	for range count {
		s := httptest.NewUnstartedServer(nil)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.handle(ctx, s.URL, w, r) })
		s.Config.SetKeepAlivesEnabled(false) // so that no request is repeated because its connection had been closed
		s.Start()
		servers = append(servers, s)
		p.nodes = append(p.nodes, s.URL)
	}
	return func() {
		for _, s := range servers {
			s.CloseClientConnections()
			s.Close()
		}
	}
}

// handle has a request wait for what the script says.
func (p *player) handle(ctx context.Context, node string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	a := &arrival{node: node, method: r.Method, path: r.URL.RequestURI(), body: string(body), reply: make(chan reply, 1)}
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case r.Header.Get("Authorization") != "Bearer "+transcriptKey:
		a.fault = "no API key"
	case len(body) > 0 && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		a.fault = "its body is not said to be JSON"
	}
	answer := general(a)
	select {
	case <-p.over:
	case p.arrivals <- a:
		select {
		case answer = <-a.reply:
		case <-p.over:
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	case <-ctx.Done():
	}
	answer.write(ctx, w)
}

// general is how requests are answered when the script is over: what is given back has ended.
func general(a *arrival) reply {
	path, _, _ := strings.Cut(a.path, "?")
	id := path[strings.LastIndexByte(path, '/')+1:]
	if a.method != http.MethodDelete {
		return reply{}
	}
	return reply{status: http.StatusOK, body: fmt.Sprintf(`{"lease_id": %q, "session": %q, "state": "ended"}`, id, id)}
}

func (r reply) write(ctx context.Context, w http.ResponseWriter) {
	if r.after > 0 {
		timer := time.NewTimer(r.after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if r.status == 0 {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	for _, h := range r.headers {
		w.Header().Set(h[0], h[1])
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body) // a client that has gone does not mind
}

// drive starts the driver; the channel says how it ended.
func (p *player) drive(ctx context.Context, drive driver) <-chan error {
	commands, input := io.Pipe()
	output, reports := io.Pipe()
	var wait sync.WaitGroup
	ended := make(chan error, 1)
	var err error
	wait.Go(func() {
		err = drive(ctx, commands, reports)
		_ = commands.CloseWithError(io.ErrClosedPipe)
		_ = reports.Close()
	})
	wait.Go(func() { p.listen(ctx, output) })
	wait.Go(func() {
		defer input.Close()
		for line := range p.commands {
			_, _ = input.Write(line) // fails when the driver has ended, which says why
		}
	})
	go func() { // ends with those two
		wait.Wait()
		ended <- err
	}()
	return ended
}

// listen takes what the driver says.
func (p *player) listen(ctx context.Context, output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		r := report{actions: p.actions.Load()}
		if err := json.Unmarshal(lines.Bytes(), &r.fields); err != nil {
			r.fields = map[string]any{"event": "broken", "error": fmt.Sprintf("the driver says %q: %v", lines.Text(), err)}
		}
		select {
		case p.said <- r:
		case <-ctx.Done():
		}
	}
}

// run plays the steps.
func (p *player) run() error {
	start := map[string]any{"do": "start", "endpoints": p.nodes, "api_key": transcriptKey}
	if err := p.command(start); err != nil {
		return err
	}
	verbs := map[string]func(step) error{"tell": p.tell, "request": p.request, "answer": p.answer, "drop": p.answer,
		"report": p.report, "may": p.allow, "choose": p.choose, "quiet": p.quiet}
	for _, s := range p.steps {
		do := verbs[s.words[0]]
		if do == nil {
			return fmt.Errorf("%v: there is no such statement", s)
		}
		if err := do(s); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	return nil
}

// finish ends the driver and looks at what was left over.
func (p *player) finish(well bool, ended <-chan error, cancel func()) error {
	p.actions.Add(1)
	last := p.actions.Load()
	var err error
	if well {
		err = p.leftPending()
	}
	close(p.over)
	close(p.commands)
	late := time.NewTimer(p.limit)
	defer late.Stop()
	for {
		select {
		case <-p.arrivals: // its handler hears that all is over
		case r := <-p.said:
			p.reports = append(p.reports, r)
		case broke := <-ended:
			if well {
				err = errors.Join(err, broke, p.leftReports(last))
			}
			return err
		case <-late.C:
			late.Reset(p.limit)
			err = errors.Join(err, errors.New("the driver did not end"))
			cancel()
		}
	}
}

func (p *player) leftPending() error {
	for _, a := range p.pending {
		if !a.hedge {
			return fmt.Errorf("the script does not have the request %v", a)
		}
	}
	return nil
}

// leftReports finds a report that came while the script was played and that it does not have.
func (p *player) leftReports(last int64) error {
	for _, r := range p.reports {
		if kind := r.field("event"); r.actions < last && kind != "queued" && kind != "doubt" {
			return fmt.Errorf("the script does not have the report %v", r.fields)
		}
	}
	return nil
}

// await takes what comes until ready reports true or fails, for limit at most; whether it did.
func (p *player) await(limit time.Duration, ready func() (bool, error)) (bool, error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		if done, err := ready(); done || err != nil {
			return done, err
		}
		select {
		case a := <-p.arrivals:
			if err := p.arrived(a); err != nil {
				return false, err
			}
		case r := <-p.said:
			if r.field("event") == "broken" {
				return false, fmt.Errorf("the driver is broken: %v", r.fields["error"])
			}
			p.reports = append(p.reports, r)
		case <-late.C:
			return false, nil
		}
	}
}

const hedgeTime = 300 * time.Millisecond // how long a copy of a heartbeat may have been on its way when that was answered

func (p *player) arrived(a *arrival) error {
	if a.fault != "" {
		return fmt.Errorf("the request %v: %s", a, a.fault)
	}
	for _, s := range p.seen {
		same := a.method == http.MethodPost && s.method == a.method && s.path == a.path && s.body == a.body
		a.hedge = a.hedge || same && (s.answered.IsZero() || time.Since(s.answered) < hedgeTime)
	}
	p.seen = append(p.seen, a)
	if !p.allowed(a) {
		p.pending = append(p.pending, a)
	}
	return nil
}

// allowed answers a request that may come at any time.
func (p *player) allowed(a *arrival) bool {
	for _, s := range p.may {
		if s.words[1] == a.method && p.matchPath(s.words[2], a.path) == nil {
			a.reply <- p.replyOf(s, s.words[3:])
			return true
		}
	}
	return false
}

func (p *player) allow(s step) error {
	p.may = append(p.may, s)
	p.pending = slices.DeleteFunc(p.pending, p.allowed)
	return nil
}

// tell has the driver do something.
func (p *player) tell(s step) error {
	command := map[string]any{}
	if s.body != "" {
		if err := json.Unmarshal([]byte(s.body), &command); err != nil {
			return err
		}
	}
	command["do"] = s.words[1]
	if len(s.words) > 2 {
		command["lease"] = s.words[2]
	}
	return p.command(command)
}

// command has a line sent to the driver.
func (p *player) command(c map[string]any) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	p.actions.Add(1)
	select {
	case p.commands <- append(line, '\n'):
		return nil
	default:
		return errors.New("the driver does not read its commands")
	}
}

// request wants a request to come, the next one: request [as NAME] METHOD PATH [at NODE | not at NODE].
func (p *player) request(s step) error {
	words, name := s.words[1:], ""
	if words[0] == "as" {
		words, name = words[2:], words[1]
	}
	var got *arrival
	come, err := p.await(p.limit, func() (bool, error) {
		for len(p.pending) > 0 {
			got, p.pending = p.pending[0], p.pending[1:]
			err := p.match(words, s.body, got)
			if err == nil || !got.hedge {
				return err == nil, err
			}
			got.reply <- reply{} // a copy that came too late
		}
		return false, nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("got %v: %w", got, err)
	case !come:
		return errors.New("no such request came")
	}
	p.latest = got
	if name != "" {
		p.named[name] = got
	}
	return nil
}

// answer answers the request before, or the one of a name: answer [NAME] STATUS [after DURATION]; drop [NAME].
func (p *player) answer(s step) error {
	to, words := p.latest, s.words[1:]
	if len(words) > 0 && p.named[words[0]] != nil {
		to, words = p.named[words[0]], words[1:]
	}
	if to == nil || !to.answered.IsZero() {
		return errors.New("there is no request to answer")
	}
	p.actions.Add(1)
	to.answered = time.Now()
	to.reply <- p.replyOf(s, words)
	return nil
}

// replyOf reads STATUS [after DURATION], or drop.
func (p *player) replyOf(s step, words []string) reply {
	var r reply
	if s.words[0] == "drop" || words[0] == "drop" {
		return r
	}
	r.status, _ = strconv.Atoi(words[0])
	if len(words) == 3 {
		r.after, _ = time.ParseDuration(words[2])
	}
	for _, h := range s.headers {
		r.headers = append(r.headers, [2]string{h[0], p.fill(h[1])})
	}
	r.body = p.fill(s.body)
	return r
}

// rivals are the reports that come instead of one.
var rivals = map[string]string{"granted": "refused", "refused": "granted", "released": "not_released", "not_released": "released",
	"closed": "not_closed"}

// unprompted are the reports that need nothing to have been said or answered before.
var unprompted = []string{"lost", "doubt", "queued"}

// report wants the driver to report: report KIND [LEASE].
func (p *player) report(s step) error {
	kind, lease := s.words[1], strings.Join(s.words[2:], "")
	actions := p.actions.Load()
	var got report
	said, err := p.await(p.limit, func() (bool, error) {
		i := slices.IndexFunc(p.reports, func(r report) bool {
			return r.field("lease") == lease && (r.field("event") == kind || r.field("event") == rivals[kind])
		})
		if i < 0 {
			return false, nil
		}
		got = p.reports[i]
		p.reports = slices.Delete(p.reports, i, i+1)
		return true, nil
	})
	switch {
	case err != nil:
		return err
	case !said:
		return fmt.Errorf("it was not reported; requests that wait: %v, other reports: %v", p.pending, p.reports)
	case got.field("event") != kind:
		return fmt.Errorf("got the report %v", got.fields)
	case got.actions < actions && !slices.Contains(unprompted, kind):
		return fmt.Errorf("got the report %v before there was reason for it", got.fields)
	}
	return p.matchReport(s, got)
}

func (p *player) matchReport(s step, got report) error {
	want := map[string]any{}
	if s.body != "" {
		if err := json.Unmarshal([]byte(s.body), &want); err != nil {
			return err
		}
	}
	return matchFields(want, got.fields)
}

// choose gives a name to a node that has none of some others: choose NAME not NAMES…. It goes backwards, as a client that goes round
// the nodes by itself does not.
func (p *player) choose(s step) error {
	for _, node := range slices.Backward(p.nodes) {
		if !slices.ContainsFunc(s.words[3:], func(name string) bool { return p.names[name] == node }) {
			p.names[s.words[1]] = node
			return nil
		}
	}
	return errors.New("there is no other node")
}

// quiet wants no request for a while, but for those that may come at any time.
func (p *player) quiet(s step) error {
	long, err := time.ParseDuration(s.words[1])
	if err != nil {
		return err
	}
	var got *arrival
	came, err := p.await(long, func() (bool, error) {
		i := slices.IndexFunc(p.pending, func(a *arrival) bool { return !a.hedge })
		if i >= 0 {
			got = p.pending[i]
		}
		return i >= 0, nil
	})
	if err == nil && came {
		err = fmt.Errorf("got the request %v", got)
	}
	return err
}
