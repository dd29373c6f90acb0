package api

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/lockcore"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

const (
	baseRule   = "must be the digest of the version to be replaced, sha256: and 64 hexadecimal digits, or empty"
	fileType   = "A class file is sent as application/yaml, text/yaml or application/json, in UTF-8."
	reasonRule = "must be 1 to 2,000 characters"
)

// failOpenDisabled says that this release grants nothing while a quorum is lost, whatever a class declares.
const failOpenDisabled = true

// declaration is what a request asks to declare.
type declaration struct {
	class  review.ClassName
	by     tenants.Principal
	file   []byte
	dryRun bool
	base   *review.Digest // nil: that of whatever is signed
	source review.Source
}

// declareClass is PUT /v1/classes/{class}: make a version of the class file that is sent, unless it is one already.
func (a *API) declareClass(c echo.Context, p tenants.Principal) error {
	d, err := declarationOf(c, p)
	if err != nil {
		return err
	}
	body, err := readFile(c, review.FileBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, body.b, err)
	}
	d.file = body.b
	command, findings, err := a.commandOf(ctx, d)
	if err != nil {
		return err
	}
	result, err := a.declare(ctx, command, d.dryRun)
	switch {
	case err != nil:
		return err
	case !result.OK:
		return classRefused(result, d.class)
	}
	return a.writeDeclaration(c, d, command, result, findings)
}

// declarationOf reads address and query.
func declarationOf(c echo.Context, p tenants.Principal) (declaration, error) {
	class, err := classOf(c)
	if err != nil {
		return declaration{}, err
	}
	if err := mayDeclare(p, class); err != nil {
		return declaration{}, err
	}
	q, err := queryOf(c, "dry_run", "base", "source_repo", "source_commit", "source_url")
	if err != nil {
		return declaration{}, err
	}
	d := declaration{class: class, by: p,
		source: review.Source{Repo: q.Get("source_repo"), Commit: q.Get("source_commit"), URL: q.Get("source_url")}}
	if d.dryRun, err = boolOf(q, "dry_run"); err != nil {
		return declaration{}, err
	}
	if q.Has("base") {
		d.base = new(review.Digest(q.Get("base")))
		if *d.base != "" && !d.base.Valid() {
			return declaration{}, &badRequest{"base", baseRule}
		}
	}
	if field, why := d.source.Problem(); field != "" {
		return declaration{}, &badRequest{"source_" + field, why}
	}
	return d, nil
}

// readFile reads a class file. The buffer is the caller's to release.
func readFile(c echo.Context, bytesMax int) (*buffer, error) {
	kind, params, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	charset, named := params["charset"]
	known := kind == typeJSON || kind == "application/yaml" || kind == "text/yaml"
	if err != nil || !known || named && !strings.EqualFold(charset, "utf-8") {
		return nil, wire.NewProblem(wire.CodeUnsupportedMediaType, fileType)
	}
	body, err := readBody(c, bytesMax)
	if err == nil && kind == typeJSON && !json.Valid(body.b) {
		body.release()
		return nil, &badRequest{"", "the body is not JSON"}
	}
	return body, err
}

// commandOf reads the class file against what the control log knows of the name.
func (a *API) commandOf(ctx context.Context, d declaration) (review.Declare, review.Findings, error) {
	var class review.Class
	var tenant tenants.Tenant
	err := a.platform.ReadControl(ctx, func(m *control.Machine) {
		class, _ = m.Class(d.by.Tenant, d.class)
		tenant, _ = m.Tenant(d.by.Tenant)
	})
	if err != nil {
		return review.Declare{}, nil, err
	}
	opts := review.Options{FailOpenDisabled: failOpenDisabled, FixedPurpose: class.Purpose, OwnerGroups: []review.Group{}}
	for _, g := range tenant.OwnerGroups {
		opts.OwnerGroups = append(opts.OwnerGroups, review.Group(g))
	}
	base := class.Base()
	if d.base != nil {
		base = *d.base
	}
	command, findings := review.NewDeclare(review.Declaration{Tenant: review.TenantID(d.by.Tenant), Name: string(d.class),
		File: d.file, Base: base, Author: control.AuthorOf(d.by), Source: d.source, At: time.Now()}, opts)
	switch {
	case findings.Err() != nil:
		return command, findings, fileRefused(findings)
	case command.Class != d.class:
		return command, findings, &badRequest{"class", fmt.Sprintf("is %s in the address and %s in the file", d.class, command.Class)}
	}
	return command, findings, nil
}

// fileRefused is how a class file with errors is answered: with all that there is to say about it. A file that is well
// formed, and wrong only for what is known of the name and the tenant, is a conflict.
func fileRefused(fs review.Findings) *wire.Problem {
	code := wire.CodeInvalidRequest
	for _, rule := range fs.Errors().Rules() {
		switch {
		case rule == review.RulePurposeChanged && code != wire.CodeUnknownOwnerGroup:
			code = wire.CodePurposeFixed
		case rule == review.RuleUnknownOwner:
			code = wire.CodeUnknownOwnerGroup
		case rule != review.RulePurposeChanged:
			return fileProblem(wire.CodeInvalidRequest, fs)
		}
	}
	return fileProblem(code, fs)
}

func fileProblem(code wire.Code, fs review.Findings) *wire.Problem {
	p := wire.NewProblem(code, fmt.Sprintf("%v.", fs.Err()))
	p.Findings = fileFindings(fs)
	return p
}

func fileFindings(fs review.Findings) []wire.FileFinding {
	out := make([]wire.FileFinding, 0, len(fs))
	for _, f := range fs {
		out = append(out, wire.FileFinding{File: f.File, Line: f.Line, Column: f.Column, Rule: string(f.Rule),
			Severity: string(f.Severity), Message: f.Message, Remedy: f.Remedy})
	}
	return out
}

// declare puts the declaration into the control log, or finds out what would come of that.
func (a *API) declare(ctx context.Context, d review.Declare, dryRun bool) (r control.Result, err error) {
	if dryRun {
		a.platform.ViewControl(func(m *control.Machine) { r = m.TrialDeclare(d) })
		return r, nil
	}
	return a.platform.Control(ctx, control.Entry{Review: d})
}

// writeDeclaration answers a declaration that stands.
func (a *API) writeDeclaration(c echo.Context, d declaration, command review.Declare, r control.Result,
	fs review.Findings) error {
	var class review.Class
	a.platform.ViewControl(func(m *control.Machine) { class, _ = m.Class(d.by.Tenant, d.class) })
	v, made := class.Version(r.Version)
	if !made { // a dry run's
		v = review.Version{Number: r.Version, State: review.StateInReview, Base: command.Base, BaseNumber: class.Current}
	}
	inForce := a.platform.InForce(lockcore.TenantID(d.by.Tenant), lockcore.ClassName(d.class))
	out := wire.ClassDeclaration{Class: string(d.class), Version: r.Version, Digest: string(command.Digest),
		State: versionState(v, inForce), Unchanged: r.Unchanged, DryRun: d.dryRun, Warnings: fileFindings(fs.Warnings()),
		MissingSignatures: texts(r.Missing), ConflictsWith: numbers(class.Conflicts(v)), InForceVersion: inForce, Base: string(v.Base)}
	status := http.StatusOK
	if made {
		out.ReviewURL = a.versionURL(d.class, r.Version)
		if !r.Unchanged && !d.dryRun {
			status = http.StatusCreated
			c.Response().Header().Set("Location", versionPath(d.class, r.Version))
		}
	}
	return writePlain(c, status, out)
}

// retireClass is DELETE /v1/classes/{class}: it grants nothing any more; what is held or waited for is ended.
func (a *API) retireClass(c echo.Context, p tenants.Principal) error {
	class, err := classOf(c)
	if err != nil {
		return err
	}
	if err := mayDeclare(p, class); err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	reason, body, err := reasonOf(c)
	if err != nil {
		return err
	}
	ctx, done := a.bounded(c.Request().Context(), 0)
	defer done()
	here, elsewhere, err := a.atControl(c)
	if err != nil || !here {
		return a.passOn(ctx, c, elsewhere, body, err)
	}
	r, err := a.platform.Control(ctx, control.Entry{Review: review.Retire{Tenant: review.TenantID(p.Tenant), Class: class,
		By: control.AuthorOf(p), AtMS: time.Now().UnixMilli(), Reason: reason}})
	switch {
	case err != nil:
		return err
	case r.Reason == string(review.RefusedInvalid):
		return &badRequest{"reason", reasonRule + ", without hidden characters"}
	case !r.OK:
		return classRefused(r, class)
	}
	return writePlain(c, http.StatusOK, wire.ClassRetirement{Class: string(class), State: wire.ClassRetired, Version: r.Version,
		Unchanged: r.Unchanged})
}

// reasonOf reads the body of a retirement, if there is one.
func reasonOf(c echo.Context) (reason string, body []byte, err error) {
	if c.Request().ContentLength == 0 {
		return "", nil, nil
	}
	buf, err := readJSON(c, bodyBytesMax)
	if err != nil {
		return "", nil, err
	}
	defer buf.release()
	s := scanner{data: buf.b}
	err = s.object([]string{"reason"}, func(int) error {
		var err error
		reason, err = s.text()
		return unless(err == nil && reason != "", "reason", reasonRule)
	})
	return reason, append([]byte(nil), buf.b...), err
}
