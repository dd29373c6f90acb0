package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// topFolders are the folders at the root. A new one needs a very good story.
var topFolders = []string{".ci", "audit", "client", "cmd", "deploy", "docs", "e2e", "internal", "lockcore", "migrations",
	"review", "static", "templates", "tenants", "web"}

// checkTopFolders finds folders at the root that are not on the list, and Go code where none belongs.
func checkTopFolders(repo tree) []string {
	var findings []string
	for _, p := range repo.paths() {
		top, rest, below := strings.Cut(p, "/")
		switch {
		case below && !slices.Contains(topFolders, top):
			findings = append(findings, p+": no top-level folder is called "+top)
		case !below && strings.HasSuffix(p, ".go"):
			findings = append(findings, p+": no Go code lives at the root")
		case (top == "deploy" || top == "docs") && strings.HasSuffix(rest, ".go"):
			findings = append(findings, p+": no Go code lives in "+top)
		}
	}
	return findings
}

// emptyNames say nothing about what a package is for.
var emptyNames = []string{"common", "helper", "helpers", "misc", "util", "utils"}

// checkNames finds packages, by clause or folder, whose name says nothing.
func checkNames(repo tree) []string {
	var findings []string
	for _, f := range repo.goFiles() {
		clause := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		for _, name := range []string{clause, path.Base(f.folder)} {
			if slices.Contains(emptyNames, name) {
				findings = append(findings, fmt.Sprintf("%s: a package called %s says nothing", f.path, name))
				break
			}
		}
	}
	return findings
}

// forbiddenCalls are calls of the Raft library that are not what they seem: one counts answers to questions that were
// asked before, the other can leave a node that refuses every write. They are spelled in halves, or this file would be
// found.
var forbiddenCalls = []string{"Verify" + "Leader(", "Leadership" + "Transfer(", "Leadership" + "TransferToServer("}

// checkCalls finds the forbidden calls in Go files, comments and tests included.
func checkCalls(repo tree) []string {
	var findings []string
	for _, p := range repo.paths() {
		for _, call := range forbiddenCalls {
			if strings.HasSuffix(p, ".go") && strings.Contains(repo[p], call) {
				findings = append(findings, fmt.Sprintf("%s: calls %s…)", p, call))
			}
		}
	}
	return findings
}

// elsewhere matches paths in somebody's own folders: nobody else has them.
var elsewhere = regexp.MustCompile(`(^|[^\w.}/-])/(home|root|Users|work|workspace)/\w[^\s"'` + "`" + `]*`)

// checkPaths finds paths that lead out of the repository: a reader, a build and a test have nothing but the repository.
func checkPaths(repo tree) []string {
	var findings []string
	for _, p := range repo.paths() {
		for i, line := range strings.Split(repo[p], "\n") {
			if found := elsewhere.FindString(line); found != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: names a path of one machine: %s", p, i+1, strings.TrimSpace(found)))
			}
		}
		if strings.HasSuffix(p, ".md") {
			findings = append(findings, checkLinks(p, repo)...)
		}
	}
	for _, f := range repo.goFiles() {
		findings = append(findings, checkLiterals(f)...)
	}
	return findings
}

// leavesRoot reports whether a relative path, taken from a folder of the repository, leads out of it.
func leavesRoot(folder, relative string) bool {
	joined := path.Join(folder, relative)
	return joined == ".." || strings.HasPrefix(joined, "../")
}

// checkLiterals finds relative paths in code that climb above the root: literals that name a file there, and what
// functions of files are called with.
func checkLiterals(f goFile) []string {
	var findings []string
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		var text string
		switch n := n.(type) {
		case *ast.BasicLit:
			text = literal(n)
			if strings.Trim(text, "./") == "" { // dots alone may be anything: a key, a part of an address
				return true
			}
		case *ast.CallExpr:
			text = fileArgument(n)
		}
		if strings.HasPrefix(text, "..") && leavesRoot(f.folder, text) {
			findings = append(findings, f.at(n)+": leads out of the repository: "+text)
			return false
		}
		return true
	})
	return findings
}

// literal is the value of a string literal; of anything else it is empty.
func literal(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(l.Value)
	return text
}

// fileArgument is the path that a call of os or path/filepath begins with, as far as it is literal.
func fileArgument(call *ast.CallExpr) string {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := function.X.(*ast.Ident); !ok || (x.Name != "os" && x.Name != "filepath") {
		return ""
	}
	var parts []string
	for _, argument := range call.Args {
		part := literal(argument)
		if part == "" {
			break
		}
		parts = append(parts, part)
	}
	return path.Join(parts...)
}

// link matches the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)

// checkLinks finds links of a document that lead out of the repository, or to a file that is not there.
func checkLinks(document string, repo tree) []string {
	var findings []string
	for _, m := range link.FindAllStringSubmatch(repo[document], -1) {
		target := m[1]
		if strings.Contains(target, ":") { // another site
			continue
		}
		if leavesRoot(path.Dir(document), target) {
			findings = append(findings, fmt.Sprintf("%s: links out of the repository: %s", document, target))
			continue
		}
		if !repo.has(path.Join(path.Dir(document), target)) {
			findings = append(findings, fmt.Sprintf("%s: links to nothing: %s", document, target))
		}
	}
	return findings
}

// has reports whether there is such a file or folder.
func (t tree) has(p string) bool {
	if _, ok := t[p]; ok || p == "." {
		return true
	}
	return slices.ContainsFunc(t.paths(), func(q string) bool { return strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") })
}

// hostName matches what looks like the address of a site.
var hostName = regexp.MustCompile(`https?://|\b[a-z0-9-]+(\.[a-z0-9-]+)*\.(com|dev|io|net|org)\b`)

// checkHosts finds addresses in the files that build and test: where packages come from is the machine's own setting.
func checkHosts(repo tree) []string {
	var findings []string
	for _, p := range repo.paths() {
		if p != "Makefile" && !strings.HasPrefix(p, ".ci/") {
			continue
		}
		if found := hostName.FindString(repo[p]); found != "" {
			findings = append(findings, fmt.Sprintf("%s: names a host: %s", p, found))
		}
	}
	return findings
}
