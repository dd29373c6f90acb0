package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// domain is what the web's handlers turn into answers.
var domain = []string{"audit", "internal/control", "lockcore", "lockcore/leader", "review", "tenants"}

// mayImport is the shape of the house: which of our packages the code of a folder may import, tests apart. A row covers
// its folder and what lies below, as far as no longer row does, and the packages of one row may import each other.
// "x/..." means x and everything below it; "..." means everything.
var mayImport = map[string][]string{
	"lockcore":              {},
	"lockcore/lockcoretest": {"lockcore"},
	"lockcore/leader":       {"lockcore"},
	"lockcore/sim":          {"lockcore/...", "client/deadline"},
	"lockcore/raftnode":     {"lockcore", "lockcore/leader"},
	"lockcore/arbiter":      {"lockcore"},
	"tenants":               {},
	"review":                {},
	"review/evidence":       {"review"},
	"audit":                 {"lockcore", "internal/sqlite"},
	"migrations":            {},
	"internal/archtest":     {},
	"internal/bench":        {"client", "client/wire", "client/deadline"},
	"internal/control":      {"tenants", "review"},
	"internal/devidp":       {},
	"internal/platform":     slices.Concat(domain, []string{"lockcore/raftnode", "web/api", "client/wire"}),
	"internal/sqlite":       {"migrations"},
	"static":                {},
	"templates":             {"static"},
	"web":                   slices.Concat(domain, []string{"web/...", "templates/...", "client/wire"}),
	"web/api":               slices.Concat(domain, []string{"templates/...", "client/wire"}),
	"web/console":           slices.Concat(domain, []string{"templates/...", "client/wire"}),
	"client":                {"client/..."},
	"client/wire":           {},
	"client/deadline":       {},
	"client/guard":          {},
	"cmd/stanchion":         {"..."},
	"e2e":                   {"client/..."},
}

// rowOf finds the row that covers a folder.
func rowOf(folder string) (string, bool) {
	for f := folder; ; {
		if _, ok := mayImport[f]; ok {
			return f, true
		}
		cut := strings.LastIndexByte(f, '/')
		if cut < 0 {
			return "", false
		}
		f = f[:cut]
	}
}

// checkImports holds every import of ours against the table.
func checkImports(repo tree) []string {
	var findings []string
	for _, f := range repo.goFiles() {
		row, ok := rowOf(f.folder)
		if !ok {
			findings = append(findings, fmt.Sprintf("%s: %s has no row in the table of imports", f.path, f.folder))
			continue
		}
		if f.test {
			continue
		}
		for _, p := range f.imports() {
			folder, ours := house(p)
			if ours && !allows(row, folder) {
				findings = append(findings, fmt.Sprintf("%s: %s may not import %s", f.path, row, folder))
			}
		}
	}
	return findings
}

func allows(row, folder string) bool {
	if other, _ := rowOf(folder); other == row {
		return true
	}
	return slices.ContainsFunc(mayImport[row], func(pattern string) bool { return matches(pattern, folder) })
}

func matches(pattern, p string) bool {
	base, subtree := strings.CutSuffix(pattern, "...")
	if !subtree {
		return pattern == p
	}
	return p+"/" == base || strings.HasPrefix(p, base)
}

// onlyUsers names, for a library that has one home here, who may import it. Tests are held to it as well.
var onlyUsers = []struct {
	library string
	users   []string
}{
	{"github.com/hashicorp/raft/...", []string{"lockcore/raftnode"}},
	{"github.com/hashicorp/raft-boltdb/...", []string{"lockcore/raftnode"}},
}

// checkLibraries holds imports of libraries against onlyUsers.
func checkLibraries(repo tree) []string {
	var findings []string
	for _, f := range repo.goFiles() {
		for _, p := range f.imports() {
			for _, only := range onlyUsers {
				if matches(only.library, p) && !slices.Contains(only.users, f.folder) {
					findings = append(findings, fmt.Sprintf("%s: only %s may import %s", f.path, only.users[0], p))
				}
			}
		}
	}
	return findings
}

// checkWebIsFreeOfRaft follows imports from web on, tests included: none leads to raftnode.
func checkWebIsFreeOfRaft(repo tree) []string {
	const start, end = "web", "lockcore/raftnode"
	imports := map[string][]string{}
	for _, f := range repo.goFiles() {
		if f.test && !matches(start+"/...", f.folder) {
			continue
		}
		for _, p := range f.imports() {
			if folder, ours := house(p); ours {
				imports[f.folder] = append(imports[f.folder], folder)
			}
		}
	}
	var findings []string
	for _, folder := range slices.Sorted(maps.Keys(imports)) {
		if !matches(start+"/...", folder) {
			continue
		}
		if way := wayTo(imports, folder, end); way != nil {
			findings = append(findings, fmt.Sprintf("%s reaches %s: %s", folder, end, strings.Join(way, " → ")))
		}
	}
	return findings
}

// wayTo is a shortest chain of imports between two packages; nil: there is none.
func wayTo(imports map[string][]string, from, to string) []string {
	seen := map[string]bool{from: true}
	for ways := [][]string{{from}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		last := way[len(way)-1]
		if last == to {
			return way
		}
		for _, next := range imports[last] {
			if !seen[next] {
				seen[next] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil
}
