package guard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stanchion-locks/stanchion/client/guard"
)

// guarded puts the guard before a handler that answers with the token it was run with.
func guarded(enters func(*http.Request) bool) http.Handler {
	g := guard.HTTP{Memory: guard.NewMemory(), Enters: enters,
		Resource: func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }}
	return g.Middleware()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := guard.TokenFromContext(r.Context())
		_, _ = fmt.Fprintln(w, token, ok)
	}))
}

// ask sends a request with the given tokens.
func ask(h http.Handler, enter bool, tokens ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPut, "/ledger", nil)
	for _, token := range tokens {
		r.Header.Add(guard.HeaderToken, token)
	}
	if enter {
		r.Header.Set(guard.HeaderEnter, "true")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantProblem checks a refusal.
func wantProblem(t *testing.T, when string, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Code, Remedy string
		Status                    int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: got %d %q, want a problem: %v", when, w.Code, w.Body, err)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: got Content-Type %q, want application/problem+json", when, got)
	}
	if w.Code != status || p.Status != status || p.Code != code || p.Type != "urn:stanchion:guard:"+code || p.Title == "" || p.Remedy == "" {
		t.Errorf("%s: got %d %+v, want %d %s", when, w.Code, p, status, code)
	}
}

func TestMiddleware_entersOnTheHeaderAndChecksOtherwise(t *testing.T) {
	h := guarded(guard.EnterOnHeader)
	wantProblem(t, "a write before entering", ask(h, false, "32"), http.StatusConflict, "fencing_token_not_entered")
	for _, r := range []struct {
		enter bool
		token string
	}{{true, "32"}, {false, "32"}, {true, "32"}, {true, "33"}, {false, "33"}} {
		if w := ask(h, r.enter, r.token); w.Code != http.StatusOK || w.Body.String() != r.token+" true\n" {
			t.Errorf("enter %t with %s: got %d %q, want 200 and the token", r.enter, r.token, w.Code, w.Body)
		}
	}
	wantProblem(t, "a stale write", ask(h, false, "32"), http.StatusPreconditionFailed, "stale_fencing_token")
	wantProblem(t, "a stale enter", ask(h, true, "32"), http.StatusPreconditionFailed, "stale_fencing_token")
	wantProblem(t, "a write above", ask(h, false, "34"), http.StatusConflict, "fencing_token_not_entered")
}

func TestMiddleware_refusesAnythingButOneToken(t *testing.T) {
	h := guarded(guard.EnterAlways)
	wantProblem(t, "no header", ask(h, false), http.StatusPreconditionRequired, "fencing_token_required")
	for _, tokens := range [][]string{{""}, {"0"}, {"-1"}, {"1", "1"}, {"1,1"}, {"1", ""}, {"9007199254740992"}} {
		wantProblem(t, fmt.Sprintf("%q", tokens), ask(h, false, tokens...), http.StatusBadRequest, "bad_fencing_token")
	}
	if w := ask(h, false, "1"); w.Code != http.StatusOK {
		t.Errorf("the lowest token afterwards: got %d, want 200", w.Code)
	}
}

func TestMiddleware_refusesARequestThatNamesNoResource(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	r.Header.Set(guard.HeaderToken, "33")
	w := httptest.NewRecorder()
	guarded(guard.EnterAlways).ServeHTTP(w, r)
	wantProblem(t, "no resource", w, http.StatusNotFound, "no_resource")
}

func TestMiddleware_keepsNewerHoldersOutWhileAHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := guard.HTTP{Memory: guard.NewMemory(), Enters: guard.EnterAlways, Resource: func(*http.Request) string { return "ledger" }}
		h := g.Middleware()(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if token, _ := guard.TokenFromContext(r.Context()); token == 32 {
				<-release
			}
		}))
		older, newer := make(chan int, 1), make(chan int, 1)
		go func() { older <- ask(h, true, "32").Code }()
		synctest.Wait()
		go func() { newer <- ask(h, true, "33").Code }()
		synctest.Wait()
		select {
		case code := <-newer:
			t.Fatalf("33 while 32's request runs: got %d, want to wait", code)
		default:
		}
		close(release)
		if a, b := <-older, <-newer; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("both requests: got %d and %d, want 200", a, b)
		}
	})
}

func TestMiddleware_panicsAtOnceWhenItIsIncomplete(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no rule of entering: got no panic, want one")
		}
	}()
	guard.HTTP{Memory: guard.NewMemory(), Resource: func(*http.Request) string { return "x" }}.Middleware()
}

func TestWriteProblem_tellsNoCauseOfWhatIsUndecided(t *testing.T) {
	w := httptest.NewRecorder()
	guard.WriteProblem(w, io.ErrUnexpectedEOF)
	wantProblem(t, "undecided", w, http.StatusServiceUnavailable, "guard_undecided")
	if strings.Contains(w.Body.String(), io.ErrUnexpectedEOF.Error()) || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %s with Retry-After %q, want no cause and a time", w.Body, w.Header().Get("Retry-After"))
	}
}

func FuzzTokenFromHeader(f *testing.F) {
	for _, seed := range []string{"1", "33", "0", "", "9007199254740991", "9007199254740992", "+1", "01", " 1", "1\n", "１"} {
		f.Add(seed, seed, false)
	}
	f.Fuzz(func(t *testing.T, first, second string, both bool) {
		h := http.Header{guard.HeaderToken: {first}}
		if both {
			h[guard.HeaderToken] = append(h[guard.HeaderToken], second)
		}
		token, err := guard.TokenFromHeader(h)
		if err != nil {
			if token != 0 || answerOf(err) != noToken {
				t.Fatalf("%q: got %d, %v, want 0 and ErrNoToken", h, token, err)
			}
			if n, err := strconv.ParseUint(first, 10, 64); !both && err == nil && n >= 1 && n <= guard.TokenMax && strconv.FormatUint(n, 10) == first {
				t.Fatalf("%q is a token and was refused", first)
			}
			return
		}
		if both || token == 0 || token > guard.TokenMax || strconv.FormatUint(token, 10) != first {
			t.Fatalf("%q: got %d, want a refusal", h, token)
		}
	})
}
