package guard

import (
	"context"
	"net/http"
)

// The headers of a guarded request.
const (
	// HeaderToken carries the fencing token: one header, decimal digits.
	HeaderToken = "Stanchion-Fencing-Token"
	// HeaderEnter with the value "true" says that the request enters: see EnterOnHeader.
	HeaderEnter = "Stanchion-Fencing-Enter"
)

// TokenFromHeader reads the token of a request. None, more than one and a malformed one are ErrNoToken.
func TokenFromHeader(h http.Header) (uint64, error) {
	switch values := h.Values(HeaderToken); len(values) {
	case 0:
		return 0, &tokenError{missing: true, why: "the request has no header " + HeaderToken}
	case 1:
		if values[0] == "" {
			return 0, &tokenError{why: "the header " + HeaderToken + " is empty"}
		}
		return ParseToken(values[0])
	}
	return 0, &tokenError{why: "the request has more than one header " + HeaderToken}
}

// EnterAlways makes every request enter. It is right where every request that reads or writes the resource passes the
// guard with its token: then a holder's first read raises the fence.
func EnterAlways(*http.Request) bool { return true }

// EnterOnHeader makes those requests enter that say "Stanchion-Fencing-Enter: true"; all others must come from the token
// that entered last. A holder's first request says it, before it reads. A writer that forgot is refused instead of let in.
func EnterOnHeader(r *http.Request) bool {
	values := r.Header.Values(HeaderEnter)
	return len(values) == 1 && values[0] == "true"
}

type tokenKey struct{}

// TokenFromContext is the token that the middleware accepted for this request; false outside of it.
func TokenFromContext(ctx context.Context) (uint64, bool) {
	token, ok := ctx.Value(tokenKey{}).(uint64)
	return token, ok
}
