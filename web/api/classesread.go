package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// classTick is how often a request that waits for a version looks again.
const classTick = 100 * time.Millisecond

const (
	versionRule     = "must be the number of a version, from 1"
	versionPollRule = pollRule + ", and needs `version`"
)

// listClasses is GET /v1/classes: a page of the tenant's classes, by name.
func (a *API) listClasses(c echo.Context, p tenants.Principal) error {
	if err := noBody(c); err != nil {
		return err
	}
	q, err := queryOf(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, from, err := pageOf(q, func(text string) bool { return review.ClassName(text).Valid() })
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, nil, err)
	}
	var page []review.Class
	list := wire.ClassList{Classes: []wire.Class{}}
	err = a.platform.ReadControl(ctx, func(m *control.Machine) {
		list.CompleteTo = m.Revision()
		page = slices.DeleteFunc(m.Classes(p.Tenant), func(c review.Class) bool {
			return string(c.Name) < from || !mayRead(p, c.Name)
		})
	})
	if err != nil {
		return err
	}
	if len(page) > limit {
		list.NextCursor = opaque(string(page[limit].Name))
		page = page[:limit]
	}
	for _, class := range page {
		list.Classes = append(list.Classes, classView(class, a.inForce(class)))
	}
	return writePlain(c, http.StatusOK, list)
}

func (a *API) inForce(c review.Class) uint64 {
	return a.platform.InForce(lockcore.TenantID(c.Tenant), lockcore.ClassName(c.Name))
}

// pageOf reads how long a page is and where it begins; empty: at the beginning.
func pageOf(q url.Values, position func(string) bool) (limit int, from string, err error) {
	n, err := wholeOf(q, "limit", limitMax, limitDefault, limitRule)
	if err != nil || !q.Has("cursor") {
		return int(n), "", err
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(q.Get("cursor"))
	if err != nil || !position(string(raw)) {
		return 0, "", &badRequest{"cursor", cursorRule}
	}
	return int(n), string(raw), nil
}

// opaque is a position in a list, without any promise about its form.
func opaque(position string) string { return base64.RawURLEncoding.EncodeToString([]byte(position)) }

// classRead is a request about one class.
type classRead struct {
	class   review.ClassName
	version uint64        // 0: about the class itself
	poll    time.Duration // how long to wait until the version is decided and, if it was signed, in force
}

// getClass is GET /v1/classes/{class}: the class, or one version of it.
func (a *API) getClass(c echo.Context, p tenants.Principal) error {
	read, err := classReadOf(c, p)
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), read.poll)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, nil, err)
	}
	if read.version != 0 {
		return a.getVersion(ctx, c, p, read)
	}
	class, err := a.readClass(ctx, p, read.class)
	if err != nil {
		return err
	}
	nodes := a.platform.InForceOnNodes(ctx, lockcore.TenantID(p.Tenant), lockcore.ClassName(class.Name))
	return writePlain(c, http.StatusOK, classInFull(class, a.inForce(class), nodes))
}

func classReadOf(c echo.Context, p tenants.Principal) (classRead, error) {
	class, err := readableClass(c, p)
	if err != nil {
		return classRead{}, err
	}
	q, err := queryOf(c, "version", "poll")
	if err != nil {
		return classRead{}, err
	}
	read := classRead{class: class}
	if read.version, err = wholeOf(q, "version", review.VersionsMax, 0, versionRule); err != nil {
		return classRead{}, err
	}
	if q.Has("poll") {
		d, err := wire.ParseDuration(q.Get("poll"))
		if err != nil || d < 0 || d.Std() > PollMax || read.version == 0 {
			return classRead{}, &badRequest{"poll", versionPollRule}
		}
		read.poll = d.Std()
	}
	return read, nil
}

// readableClass reads which class a request without a body asks about, and whether its caller may know of it.
func readableClass(c echo.Context, p tenants.Principal) (review.ClassName, error) {
	class, err := classOf(c)
	if err != nil {
		return "", err
	}
	if err := noBody(c); err != nil {
		return "", err
	}
	if !mayRead(p, class) {
		return "", forbidden(tenants.Scope{Verb: tenants.VerbLocks, Classes: string(class)})
	}
	return class, nil
}

func (a *API) readClass(ctx context.Context, p tenants.Principal, name review.ClassName) (review.Class, error) {
	var class review.Class
	var known bool
	err := a.platform.ReadControl(ctx, func(m *control.Machine) { class, known = m.Class(p.Tenant, name) })
	if err == nil && !known {
		err = wire.NewProblem(wire.CodeNotFound, "")
	}
	return class, err
}

// getVersion answers how a version stands once it is decided and, if signed, in force as this node has it, or after poll.
func (a *API) getVersion(ctx context.Context, c echo.Context, p tenants.Principal, read classRead) error {
	class, err := a.readClass(ctx, p, read.class)
	if err != nil {
		return err
	}
	if _, known := class.Version(read.version); !known {
		return wire.NewProblem(wire.CodeNotFound, "")
	}
	if class, err = a.awaitVersion(ctx, class, read); err != nil {
		return err
	}
	v, _ := class.Version(read.version)
	out := versionView(class, v, a.inForce(class), a.keyNamed(class, v))
	out.Posture, out.File = v.Posture.Canonical(), string(v.File)
	out.Claim = claimView(v.Posture)
	return writePlain(c, http.StatusOK, out)
}

// awaitVersion looks at a version until nothing more can come of it, or the request has hung for long enough.
func (a *API) awaitVersion(ctx context.Context, class review.Class, read classRead) (review.Class, error) {
	enough, tick := time.NewTimer(read.poll), time.NewTicker(classTick)
	defer enough.Stop()
	defer tick.Stop()
	for read.poll > 0 {
		v, _ := class.Version(read.version)
		if !versionState(v, a.inForce(class)).Undecided() || class.Stale(v) && v.State == review.StateInReview {
			break
		}
		select {
		case <-ctx.Done():
			return class, context.Cause(ctx)
		case <-enough.C:
			return class, nil
		case <-tick.C:
			a.platform.ViewControl(func(m *control.Machine) {
				class, _ = m.Class(tenants.TenantID(class.Tenant), class.Name)
			})
		}
	}
	return class, nil
}

// listVersions is GET /v1/classes/{class}/versions: a page of them, newest first.
func (a *API) listVersions(c echo.Context, p tenants.Principal) error {
	name, err := readableClass(c, p)
	if err != nil {
		return err
	}
	q, err := queryOf(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, from, err := pageOf(q, func(text string) bool { return positionOf(text) > 0 })
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, nil, err)
	}
	class, err := a.readClass(ctx, p, name)
	if err != nil {
		return err
	}
	list := wire.ClassVersionList{Versions: []wire.ClassVersion{}}
	a.platform.ViewControl(func(m *control.Machine) { list.CompleteTo = m.Revision() })
	page := class.Versions
	if at := positionOf(from); at > 0 && at < len(page) {
		page = page[:at]
	}
	if len(page) > limit {
		list.NextCursor = opaque(strconv.Itoa(len(page) - limit))
		page = page[len(page)-limit:]
	}
	for _, v := range slices.Backward(page) {
		list.Versions = append(list.Versions, versionView(class, v, a.inForce(class), a.keyNamed(class, v)))
	}
	return writePlain(c, http.StatusOK, list)
}

// positionOf reads the number of a version; 0: it is none.
func positionOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > review.VersionsMax || strconv.Itoa(n) != text {
		return 0
	}
	return n
}

// keyNamed is the name of the API key that declared the version; empty if a person did, or the key is gone.
func (a *API) keyNamed(c review.Class, v review.Version) string {
	if v.Author.Lineage == "" {
		return ""
	}
	return a.platform.KeyName(lockcore.TenantID(c.Tenant), v.Author.ID)
}
