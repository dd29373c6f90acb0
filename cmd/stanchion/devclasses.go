package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stanchion-locks/stanchion/internal/control"
	"github.com/stanchion-locks/stanchion/review"
	"github.com/stanchion-locks/stanchion/tenants"
)

// classSource is a class file that dev puts in force.
type classSource struct {
	name string
	data []byte
	file review.ClassFile
}

// The people of a development cluster: whoever declares a version never signs it, here as anywhere.
var (
	devAuthor = review.Person{Issuer: "dev", Subject: "admin@dev.test", Email: "admin@dev.test"}
	devOwner  = review.Person{Issuer: "dev", Subject: "owner@dev.test", Email: "owner@dev.test"}
)

// readClassSources reads the class files in dir, or the samples if dir is empty. A file with errors is refused with all
// that is wrong with it.
func readClassSources(dir string) ([]classSource, error) {
	fsys := fs.FS(sampleClasses)
	pattern := "sample/*.yaml"
	if dir != "" {
		fsys, pattern = os.DirFS(dir), "*"
	}
	names, err := fs.Glob(fsys, pattern)
	if err != nil {
		return nil, err
	}
	var all []classSource
	for _, name := range names {
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("class file: %w", err)
		}
		file, findings := review.Parse(filepath.Join(dir, name), data, review.Options{})
		if findings.Err() != nil {
			return nil, errors.New("class files refused:\n" + findings.Errors().Text())
		}
		all = append(all, classSource{name: name, data: data, file: file})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no class file (*.yaml, *.yml, *.json) in %s", dir)
	}
	return all, nil
}

func ownerGroups(classes []classSource) []tenants.Group {
	var groups []tenants.Group
	for _, c := range classes {
		groups = append(groups, tenants.Group(c.file.Owner))
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// putInForce declares a tenant's class file and signs it as its owner, unless it is in force as it is.
func putInForce(ctx context.Context, nodes adminClients, tenant string, c classSource) error {
	state, err := nodes.class(ctx, tenant, string(c.file.Class))
	if err != nil {
		return err
	}
	if state.Signed > 0 && state.Digest == c.file.Digest() {
		return nil
	}
	if state.Reviewed != c.file.Digest() {
		if err := declare(ctx, nodes, tenant, c, state.Base); err != nil {
			return err
		}
		if state, err = nodes.reviewed(ctx, tenant, c.file); err != nil {
			return err
		}
	}
	now := time.Now().UnixMilli()
	_, err = nodes.control(ctx, control.Entry{Review: review.Sign{Tenant: review.TenantID(tenant), Class: c.file.Class, Version: state.InReview,
		Digest: state.Reviewed, Signer: devOwner, SignerGroups: []review.Group{c.file.Owner}, Ticked: state.Warnings,
		ClaimsVersion: review.ClaimsTableVersion, AuthTimeMS: now, AtMS: now}})
	if err != nil {
		return fmt.Errorf("sign class %s: %w", c.file.Class, err)
	}
	return nil
}

func declare(ctx context.Context, nodes adminClients, tenant string, c classSource, base review.Digest) error {
	d, findings := review.NewDeclare(review.Declaration{Tenant: review.TenantID(tenant), Name: c.name, File: c.data, Base: base,
		Author: review.Actor{ID: devAuthor.Subject, Persons: []review.Person{devAuthor}}, At: time.Now()}, review.Options{FailOpenDisabled: true})
	if err := findings.Err(); err != nil {
		return err
	}
	if _, err := nodes.control(ctx, control.Entry{Review: d}); err != nil {
		return fmt.Errorf("declare class %s: %w", c.file.Class, err)
	}
	return nil
}

// reviewed waits until some node shows the file's version in review.
func (all adminClients) reviewed(ctx context.Context, tenant string, f review.ClassFile) (classReply, error) {
	for {
		if c, err := all.class(ctx, tenant, string(f.Class)); err == nil && c.Reviewed == f.Digest() {
			return c, nil
		}
		if !pause(ctx, again) {
			return classReply{}, fmt.Errorf("class %s is not in review: %w", f.Class, ctx.Err())
		}
	}
}

// class asks the nodes in turn how a class stands; the one that knows the most versions is right.
func (all adminClients) class(ctx context.Context, tenant, class string) (classReply, error) {
	var best classReply
	err := errors.New("no node answers")
	for _, a := range all {
		c, asked := a.class(ctx, tenant, class)
		if asked != nil {
			continue
		}
		err = nil
		if max(c.Signed, c.InReview) >= max(best.Signed, best.InReview) {
			best = c
		}
	}
	return best, err
}
