package guard

import (
	"context"
	"net/http"
)

// HTTP guards a handler whose resources live in this process, by the header Stanchion-Fencing-Token. Where the handler keeps
// its resources in a database, use SQL inside the handler instead, with TokenFromHeader and WriteProblem: then the fence
// is as durable as they are. All three fields are required; none has a default that would be right everywhere.
type HTTP struct {
	Memory *Memory
	// Resource names what a request is about, from its path for instance. An empty name is answered with 404.
	Resource func(*http.Request) string
	// Enters says whether a request enters or must have entered: EnterOnHeader, EnterAlways, or a rule of the caller's.
	Enters func(*http.Request) bool
}

// Middleware puts the guard before handlers. A handler runs only with the highest token that has entered, finds it by
// TokenFromContext, and no newer holder enters before the handler has returned: give the server time limits, or one slow
// request keeps the next holder out. Requests of one token run side by side. What is refused is answered by WriteProblem
// and never reaches the handler. A missing field is a mistake of the program and panics here, not at the first request.
func (g HTTP) Middleware() func(http.Handler) http.Handler {
	if g.Memory == nil || g.Resource == nil || g.Enters == nil {
		panic("guard: HTTP needs Memory, Resource and Enters")
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, done, err := g.admit(r)
			if err != nil {
				WriteProblem(w, err)
				return
			}
			defer done()
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, token)))
		})
	}
}

// admit checks a request, once as far as reports go, and keeps newer holders out until done is called.
func (g HTTP) admit(r *http.Request) (token uint64, done func(), err error) {
	resource := g.Resource(r)
	if err := checkResource(resource); err != nil {
		return 0, nil, err
	}
	defer func() { g.Memory.Reporting.observe(resource, err) }()
	token, err = TokenFromHeader(r.Header)
	if err != nil {
		return 0, nil, err
	}
	if g.Enters(r) {
		if err := g.Memory.enter(r.Context(), resource, token); err != nil {
			return 0, nil, err
		}
	}
	done, err = g.Memory.hold(r.Context(), resource, token)
	return token, done, err
}
