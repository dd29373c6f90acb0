package archtest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/stanchion-locks/stanchion"

// tree is a repository: the text of its files by path from the root.
type tree map[string]string

// paths lists the files in order.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// goFile is one parsed Go file. A file with syntax errors is parsed as far as it goes.
type goFile struct {
	path   string
	folder string // "." at the root
	test   bool
	set    *token.FileSet // shared by the files of a tree
	syntax *ast.File
}

// goFiles parses the Go files, testdata apart, in order of their paths.
func (t tree) goFiles() []goFile {
	var files []goFile
	set := token.NewFileSet()
	for _, p := range t.paths() {
		if !strings.HasSuffix(p, ".go") || slices.Contains(strings.Split(p, "/"), "testdata") {
			continue
		}
		syntax, _ := parser.ParseFile(set, p, t[p], parser.ParseComments|parser.SkipObjectResolution)
		if syntax != nil {
			files = append(files, goFile{p, path.Dir(p), strings.HasSuffix(p, "_test.go"), set, syntax})
		}
	}
	return files
}

// imports lists the import paths of the file.
func (f goFile) imports() []string {
	var all []string
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (f goFile) line(p token.Pos) int { return f.set.Position(p).Line }

// at is a place in the file, for a finding.
func (f goFile) at(n ast.Node) string { return f.path + ":" + strconv.Itoa(f.line(n.Pos())) }

// house is the folder of one of our packages, from its import path.
func house(importPath string) (folder string, ours bool) {
	return strings.CutPrefix(importPath, modulePath+"/")
}

// repository reads this repository: what is committed, and what would be.
func repository(t *testing.T) tree {
	t.Helper()
	root := repositoryRoot(t)
	list := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", root,
		"ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the repository's files: %v", err)
	}
	files := tree{}
	for p := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatalf("read the repository: %v", err)
		}
		files[p] = string(text)
	}
	return files
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			t.Fatal("no go.mod above the test")
		}
		folder = parent
	}
}
