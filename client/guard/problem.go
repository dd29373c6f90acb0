package guard

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// problem is an RFC 9457 document about a guarded request.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Code      string `json:"code"`
	Remedy    string `json:"remedy"`
	Presented uint64 `json:"presented,omitempty"`
	Highest   uint64 `json:"highest,omitempty"`
}

// WriteProblem answers a request whose Enter, Check or Do failed, with a problem document (RFC 9457):
//
//   - 412 Precondition Failed, code stale_fencing_token, for ErrStale: the token is a condition that the request itself
//     named and that does not hold. It is not 409, which invites a client to mend its request and send it again.
//   - 428 Precondition Required, code fencing_token_required, for ErrNoToken where there was none at all.
//   - 400, code bad_fencing_token, for any other ErrNoToken.
//   - 409, code fencing_token_not_entered, for ErrNotEntered: entering mends it.
//   - 404, code no_resource, for ErrResource and ErrNoRow.
//   - 503, code guard_undecided, with Retry-After, for all else; the cause is not told.
func WriteProblem(w http.ResponseWriter, err error) {
	p := problemOf(err)
	p.Type = "urn:stanchion:guard:" + p.Code
	body, _ := json.Marshal(p) // strings and numbers always marshal
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may be gone
}

func problemOf(err error) problem {
	var stale *StaleError
	var early *NotEnteredError
	var token *tokenError
	switch {
	case errors.As(err, &stale):
		return problem{Title: "A newer holder has entered the resource.", Status: http.StatusPreconditionFailed, Detail: err.Error(),
			Code: "stale_fencing_token", Remedy: "Stop the work: the lease is over. Do not repeat the request.",
			Presented: stale.Presented, Highest: stale.Highest}
	case errors.As(err, &early):
		return problem{Title: "The token has not entered the resource.", Status: http.StatusConflict, Detail: err.Error(),
			Code: "fencing_token_not_entered", Remedy: "Enter first, and read again what the change is based on.",
			Presented: early.Presented, Highest: early.Highest}
	case errors.As(err, &token) && token.missing:
		return problem{Title: "The resource takes no request without a fencing token.", Status: http.StatusPreconditionRequired,
			Detail: err.Error(), Code: "fencing_token_required", Remedy: "Send the grant's token in the header " + HeaderToken + "."}
	case errors.Is(err, ErrNoToken):
		return problem{Title: "The fencing token is none.", Status: http.StatusBadRequest, Detail: err.Error(),
			Code: "bad_fencing_token", Remedy: "Send the token of a protected grant, once, in decimal digits."}
	case errors.Is(err, ErrResource), errors.Is(err, ErrNoRow):
		return problem{Title: "There is no such guarded resource.", Status: http.StatusNotFound, Code: "no_resource",
			Remedy: "Name a resource that exists."}
	}
	return problem{Title: "The guard could not decide; nothing was done.", Status: http.StatusServiceUnavailable,
		Code: "guard_undecided", Remedy: "Repeat the request, if the lease is still held."}
}
