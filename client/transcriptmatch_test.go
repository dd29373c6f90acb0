package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stanchion-locks/stanchion/client/wire"
)

// match holds a request against METHOD PATH [at NODE | not at NODE] and a body.
func (p *player) match(words []string, body string, a *arrival) error {
	if words[0] != a.method {
		return fmt.Errorf("want %s", words[0])
	}
	if err := p.matchPath(words[1], a.path); err != nil {
		return err
	}
	switch {
	case len(words) == 4 && words[2] == "at":
		if !p.is(words[3], a.node) {
			return fmt.Errorf("want it at %s; names: %v", words[3], p.names)
		}
	case len(words) == 5 && words[2] == "not":
		if p.names[words[4]] == a.node {
			return fmt.Errorf("want it at another node")
		}
	}
	return matchBody(p.fill(body), a.body)
}

// is reports whether a name stands for a value. One that stands for nothing yet does from now on, unless another name does.
func (p *player) is(name, value string) bool {
	if known, ok := p.names[name]; ok {
		return known == value
	}
	for _, other := range p.names {
		if other == value {
			return false
		}
	}
	p.names[name] = value
	return true
}

var variable = regexp.MustCompile(`\$[A-Z][A-Z0-9]*`)

// matchPath holds a path and query against a pattern. $NAMES stand for a session or a number. A query that the pattern has may be left
// out, and must be that if it is there.
func (p *player) matchPath(pattern, path string) error {
	want, wantQuery, _ := strings.Cut(pattern, "?")
	got, gotQuery, _ := strings.Cut(path, "?")
	parts := variable.Split(want, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	values := regexp.MustCompile("^" + strings.Join(parts, "([0-9a-f]+)") + "$").FindStringSubmatch(got)
	if values == nil {
		return fmt.Errorf("want the path %s", p.fill(pattern))
	}
	for i, name := range variable.FindAllString(want, -1) {
		if !p.is(name[1:], values[i+1]) {
			return fmt.Errorf("want the path %s", p.fill(pattern))
		}
	}
	if gotQuery != "" && wantQuery != "" && gotQuery != wantQuery {
		return fmt.Errorf("want the query %s", wantQuery)
	}
	return nil
}

// fill puts in what names stand for.
func (p *player) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := p.names[name[1:]]; ok {
			return value
		}
		return name
	})
}

// matchBody wants the fields of one JSON object in another. Durations are the same when they are as long, and lists in any
// order; of a wait, some may have passed.
func matchBody(want, got string) error {
	if want == "" {
		return nil
	}
	var w, g map[string]any
	if err := errors.Join(json.Unmarshal([]byte(want), &w), json.Unmarshal([]byte(got), &g)); err != nil {
		return err
	}
	return matchFields(w, g)
}

func matchFields(want, got map[string]any) error {
	for name, w := range want {
		if canonical(w) != canonical(got[name]) && !(name == "wait" && rest(w, got[name])) {
			return fmt.Errorf("%s: got %v, want %v", name, got[name], w)
		}
	}
	return nil
}

// rest reports whether a wait is what may be left of another: some of it.
func rest(want, got any) bool {
	w, werr := wire.ParseDuration(fmt.Sprint(want))
	g, gerr := wire.ParseDuration(fmt.Sprint(got))
	return werr == nil && gerr == nil && 0 < g && g < w
}

func canonical(v any) string {
	switch v := v.(type) {
	case string:
		if d, err := wire.ParseDuration(v); err == nil {
			return d.String()
		}
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, canonical(x))
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	return fmt.Sprint(v)
}
