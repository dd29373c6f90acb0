package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// failure is what a command says that has failed. It is the object that --output json writes to standard error.
type failure struct {
	Code      string `json:"code"`             // of a problem that the cluster answered, its own; otherwise one of the failureKinds'
	Title     string `json:"title"`            // what such a failure always is
	Detail    string `json:"detail"`           // what happened this time
	Remedy    string `json:"remedy,omitempty"` // what to do; empty: nobody knows
	Status    int    `json:"status,omitempty"` // of a problem that the cluster answered
	RequestID string `json:"request_id,omitempty"`
}

// remedied is an error with what to do about it.
type remedied struct {
	err    error
	remedy string
}

func (e *remedied) Error() string { return e.err.Error() }

// Unwrap is what went wrong.
func (e *remedied) Unwrap() error { return e.err }

// withRemedy adds to an error what to do about it.
func withRemedy(err error, remedy string) error { return &remedied{err, remedy} }

// failureKind is a kind of failure that is known by its error.
type failureKind struct {
	code, title string
	is          func(error) bool
	remedy      func(err error, from settings) string
}

// says makes a remedy that is always the same.
func says(remedy string) func(error, settings) string {
	return func(error, settings) string { return remedy }
}

// isA reports whether an error is, or wraps, one of that type.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// oneOf reports whether an error is, or wraps, one of those.
func oneOf(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
}

// failureKinds are looked through in their order.
var failureKinds = []failureKind{
	{"usage", "The command line makes no sense.", oneOf(errUsage), says("")},
	{"interrupted", "The command was interrupted.", oneOf(context.Canceled), says("")},
	{"redirected", "Something in between sends requests elsewhere.", oneOf(errRedirected), func(_ error, from settings) string {
		return "name the nodes themselves with --endpoints, each with the scheme that it speaks" + came(from.endpoints)
	}},
	{"foreign_answer", "What answers is no node.", oneOf(errForeign, errForeignFailure), func(_ error, from settings) string {
		return "check the addresses, or name others with --endpoints" + came(from.endpoints)
	}},
	{"unknown_authority", "The node's certificate is signed by an authority that is not trusted here.", isA[x509.UnknownAuthorityError],
		authorityRemedy},
	{"other_name", "The node's certificate is for another name.", isA[x509.HostnameError], func(_ error, from settings) string {
		return "name the node with --endpoints as its certificate does" + came(from.endpoints)
	}},
	{"certificate", "The node's certificate cannot be trusted.", isA[*tls.CertificateVerificationError],
		says("have the node given a certificate that is valid now; check this machine's clock")},
	{"no_tls", "https was spoken to a port that does not speak it.", noTLS, func(_ error, from settings) string {
		return "write http:// in --endpoints, or have the node speak TLS" + came(from.endpoints)
	}},
	{"connection_refused", "Nothing listens there.", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) || isSocket(err) },
		absentRemedy},
	{"unknown_host", "There is no machine of that name.", isA[*net.DNSError], func(_ error, from settings) string {
		return "check the names, or give others with --endpoints" + came(from.endpoints)
	}},
	{"timeout", "No answer came in time.", isTimeout, lateRemedy},
	{"unreachable", "No node could be reached.", isA[*callError], absentRemedy},
	{"address_in_use", "Something listens there already.", oneOf(syscall.EADDRINUSE), says("choose another address, or end what listens there")},
	{"no_file", "There is no such file.", oneOf(fs.ErrNotExist), says("check the file's name, and the folder that the command runs in")},
	{"no_permission", "This user may not.", oneOf(fs.ErrPermission), says("check who may read or write it, or run the command as a user who may")},
}

// isTimeout reports whether time was over.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && t.Timeout()
}

// isSocket reports whether a node's operator socket was not to be had.
func isSocket(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && op.Net == "unix"
}

// came says where addresses came from, at the end of a sentence.
func came(s setting) string {
	if s.source == "" {
		return ""
	}
	return "; the addresses came from " + s.source
}

// source says where a value came from, within a sentence.
func source(s setting) string {
	if s.source == "" {
		return ""
	}
	return " (" + s.source + ")"
}

func absentRemedy(err error, from settings) string {
	switch {
	case isSocket(err) && errors.Is(err, fs.ErrPermission):
		return "run the command as the user that runs the node"
	case isSocket(err):
		return "start the node, or name with --socket the admin.sock in the data folder of one that runs on this machine"
	}
	return "start the cluster, or name nodes that run with --endpoints" + came(from.endpoints) +
		"; 'stanchion dev' runs a cluster to try things on"
}

func lateRemedy(err error, from settings) string {
	if !isA[*callError](err) {
		return "repeat the command"
	}
	return "repeat the command; on a node's machine 'stanchion cluster status --socket DATA/admin.sock' says how it stands; " +
		"name others with --endpoints" + came(from.endpoints)
}

func authorityRemedy(_ error, from settings) string {
	if from.caFile.value != "" {
		return fmt.Sprintf("put the authority's certificate into %s (%s), or name its file with --ca-file", from.caFile.value, from.caFile.source)
	}
	return "name the file with the authority's certificate with --ca-file, STANCHION_CA_FILE, or ca_file in " + profilePlace(from)
}

// explain says what an error is and what to do. c is the command that failed; before it began its work, whatever fails is wrong
// with the command line.
func explain(err error, c *cobra.Command, began bool) failure {
	call, called := errors.AsType[*callError](err)
	var from settings
	if called {
		from = call.from
	}
	f := failure{Code: "failed", Title: "The command failed.", Detail: err.Error()}
	if p, answered := errors.AsType[*wire.Problem](err); answered {
		f = failure{Code: string(p.Code), Title: p.Title, Detail: err.Error(), Remedy: problemRemedy(p, from), Status: p.Status,
			RequestID: p.RequestID}
	} else if !began || errors.Is(err, errUsage) {
		f.Code, f.Title, f.Remedy = "usage", "The command line makes no sense.", "see '"+c.CommandPath()+" --help'"
	} else if i := slices.IndexFunc(failureKinds, func(k failureKind) bool { return k.is(err) }); i >= 0 {
		k := failureKinds[i]
		f.Code, f.Title, f.Remedy = k.code, k.title, k.remedy(err, from)
	}
	if own, ok := errors.AsType[*remedied](err); ok {
		f.Remedy = own.remedy
	}
	return f
}

// problemRemedy is the problem's own, with the commands and flags that it takes here.
func problemRemedy(p *wire.Problem, from settings) string {
	key := source(from.apiKey)
	if from.keyFile != "" {
		key = " (" + from.keyFile + ")"
	}
	switch p.Code {
	case wire.CodeUnauthorized:
		return "the API key" + key + " is unknown, expired or revoked: name another with --api-key-file, STANCHION_API_KEY or a profile; " +
			"an administrator makes one with 'stanchion api-key create'"
	case wire.CodeForbidden:
		return "name an API key with the scope " + cmp.Or(p.Scope, "that this takes") + " with --api-key-file, STANCHION_API_KEY or a profile; " +
			"'stanchion api-key show self' says what this one" + key + " may do"
	}
	return p.Remedy
}

// print writes the failure: for people a line, and what to do in the next one; for programs one object.
func (f failure) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(out, map[string]failure{"error": f})
	}
	text := "stanchion: " + readable(f.Detail) + "\n"
	if f.Remedy != "" {
		text += "what to do: " + readable(f.Remedy) + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// readable is text of several lines with nothing in it that acts on a terminal.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, strings.TrimSpace(text))
}
