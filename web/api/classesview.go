package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/review"
)

// versionState is where a version stands, as it is published: signed is in force once the partition carries it.
func versionState(v review.Version, inForce uint64) wire.VersionState {
	if v.State == review.StateSigned && inForce == v.Number {
		return wire.VersionInForce
	}
	return wire.VersionState(v.State)
}

func classState(c review.Class, inForce uint64) wire.ClassState {
	switch {
	case c.Current == 0:
		return wire.ClassNeverSigned
	case c.Retired:
		return wire.ClassRetired
	case inForce == 0:
		return wire.ClassSigned
	}
	return wire.ClassInForce
}

// classView is a class as a list shows it.
func classView(c review.Class, inForce uint64) wire.Class {
	out := wire.Class{Class: string(c.Name), State: classState(c, inForce), Purpose: string(c.Purpose), Owner: string(c.Owner()),
		InForceVersion: inForce, SignedVersion: c.Current, LatestVersion: uint64(len(c.Versions)), Base: string(c.Base()),
		InReview: []uint64{}}
	for _, v := range c.InReview() {
		out.InReview = append(out.InReview, v.Number)
	}
	return out
}

// classInFull is a class with its posture, and how far each node is with it.
func classInFull(c review.Class, inForce uint64, nodes []ClassOnNode) wire.Class {
	out := classView(c, inForce)
	v, signed := c.Version(c.Current)
	if signed {
		out.Posture, out.Claim = v.Posture.Canonical(), claimView(v.Posture)
	}
	want := c.Current
	if c.Retired {
		want = 0
	}
	everywhere := true
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, wire.ClassNode{Node: n.Node, InForceVersion: n.Version, Answered: n.Answered})
		everywhere = everywhere && n.Answered && n.Version == want
	}
	if signed {
		out.InForceEverywhere = &everywhere
	}
	return out
}

func claimView(p review.Posture) *wire.Claim {
	c := review.ClaimFor(p.Purpose, p.Enforcement)
	return &wire.Claim{ID: string(c.ID), Text: c.Sentence}
}

// versionView is a version as a list shows it. keyName is the name of the API key that declared it.
func versionView(c review.Class, v review.Version, inForce uint64, keyName string) wire.ClassVersion {
	out := wire.ClassVersion{
		Class: string(c.Name), Version: v.Number, State: versionState(v, inForce),
		Stale: v.State == review.StateInReview && c.Stale(v), Digest: string(v.Digest), Base: string(v.Base),
		BaseVersion: v.BaseNumber, Owner: string(v.Posture.Owner), DeclaredBy: v.Author.ID, APIKey: keyName,
		DeclaredAt: wallTime(v.DeclaredAtMS), Source: wire.ClassSource{Repo: v.Source.Repo, Commit: v.Source.Commit, URL: v.Source.URL},
		Warnings: texts(v.Warnings), Signatures: []wire.ClassSignature{}, MissingSignatures: texts(v.Missing()),
		ConflictsWith: numbers(c.Conflicts(v)),
	}
	for _, s := range v.Signatures {
		out.Signatures = append(out.Signatures, wire.ClassSignature{Signer: s.Signer.Shown(), Groups: texts(s.Groups),
			Ticked: texts(s.Ticked), Claims: s.ClaimsVersion, AuthTime: wallTime(s.AuthTimeMS), SignedAt: wallTime(s.AtMS)})
	}
	if d := v.Decision; d.AtMS != 0 {
		out.Decision = &wire.ClassDecision{By: d.By, Reason: d.Reason, At: wallTime(d.AtMS)}
	}
	return out
}

// texts are the plain words of a list, never null.
func texts[S ~string](list []S) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// numbers is a list that is never null.
func numbers(list []uint64) []uint64 {
	if list == nil {
		return []uint64{}
	}
	return list
}

// writePlain sends an answer, whole, without the escapes that JSON within HTML would need: a posture statement has to arrive
// in the bytes that were signed.
func writePlain(c echo.Context, status int, answer any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		return fmt.Errorf("write an answer about classes: %w", err)
	}
	return c.Blob(status, typeJSON, b.Bytes())
}
