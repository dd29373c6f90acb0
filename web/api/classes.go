package api

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// Classes is what a node knows of classes beyond the control log. Safe for concurrent use.
type Classes interface {
	// InForce is the version of a class that the tenant's partition grants under, as this node has applied it; 0: none.
	InForce(tenant lockcore.TenantID, class lockcore.ClassName) uint64
	// InForceOnNodes asks every node of the cluster for its InForce, this one included, in order of their ids. It takes a
	// second or two at most: a node that does not answer by then is told as one that has not answered.
	InForceOnNodes(ctx context.Context, tenant lockcore.TenantID, class lockcore.ClassName) []ClassOnNode
}

// ClassOnNode is how far one node is with a class.
type ClassOnNode struct {
	Node     string
	Version  uint64 // in force there; 0: none
	Answered bool
}

// classProblems says how what the control log refuses about a class is published. What is not in it is internal.
var classProblems = map[string]wire.Code{
	control.RefusedUnknownTenant:      wire.CodeNotFound,
	control.RefusedTenantDropped:      wire.CodeTenantDropped,
	control.RefusedOwnerGroup:         wire.CodeUnknownOwnerGroup,
	string(review.RefusedUnknown):     wire.CodeNotFound,
	string(review.RefusedStaleBase):   wire.CodeStaleBase,
	string(review.RefusedPurpose):     wire.CodePurposeFixed,
	string(review.RefusedTooMany):     wire.CodeTooMany,
	string(review.RefusedNeverSigned): wire.CodeNeverSigned,
	string(review.RefusedInvalid):     wire.CodeInvalidRequest,
}

// classRefused is how the control log's refusal about a class is answered.
func classRefused(r control.Result, class review.ClassName) *wire.Problem {
	if r.Reason == control.RefusedForbidden || r.Reason == control.RefusedAuthor { // the API key changed meanwhile
		return forbidden(tenants.Scope{Verb: tenants.VerbDeclareClasses, Classes: string(class)})
	}
	code, known := classProblems[r.Reason]
	if !known {
		code = wire.CodeInternal
	}
	p := wire.NewProblem(code, "")
	if code == wire.CodeTooMany {
		p.Detail = fmt.Sprintf("A tenant has at most %d classes, retired ones included; a class at most %d versions, and %d in review.",
			review.ClassesMax, review.VersionsMax, review.InReviewMax)
	}
	p.Reason = r.Reason
	return p
}

// classOf reads the class that the address names.
func classOf(c echo.Context) (review.ClassName, error) {
	name := review.ClassName(c.Param("class"))
	return name, unless(name.Valid(), "class", classRule)
}

// mayDeclare refuses a caller whose scopes do not take in the class.
func mayDeclare(p tenants.Principal, class review.ClassName) error {
	if p.Scopes.Allows(tenants.VerbDeclareClasses, string(class)) {
		return nil
	}
	return forbidden(tenants.Scope{Verb: tenants.VerbDeclareClasses, Classes: string(class)})
}

// mayRead reports whether the caller may know of the class: who uses it, who declares it, who audits.
func mayRead(p tenants.Principal, class review.ClassName) bool {
	return p.Scopes.Allows(tenants.VerbLocks, string(class)) || p.Scopes.Allows(tenants.VerbDeclareClasses, string(class)) ||
		p.Scopes.Allows(tenants.VerbReadAudit, "")
}

// versionURL is the address of a version at this node.
func (a *API) versionURL(class review.ClassName, version uint64) string {
	var base string
	if ref, known := a.platform.ControlLeader(); known && ref.Self {
		base = ref.URL
	}
	return base + versionPath(class, version)
}

func versionPath(class review.ClassName, version uint64) string {
	return "/v1/classes/" + string(class) + "?version=" + strconv.FormatUint(version, 10)
}

// wholeOf reads a parameter that is a number from 1 to most, in its one written form; fallback if it is not there.
func wholeOf(q url.Values, name string, most, fallback uint64, rule string) (uint64, error) {
	if !q.Has(name) {
		return fallback, nil
	}
	text := q.Get(name)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > most || strconv.FormatUint(n, 10) != text {
		return 0, &badRequest{name, rule}
	}
	return n, nil
}

// boolOf reads a parameter that is true or false; false if it is not there.
func boolOf(q url.Values, name string) (bool, error) {
	switch text := q.Get(name); {
	case !q.Has(name), text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, &badRequest{name, openRule}
}
