package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// pure is what a package must do without.
type pure struct {
	folder    string
	libraries []string // what it may import besides the standard library and what its row allows
	forbidden []string // of the standard library
	mapOrder  bool     // whether ranging over maps is free
}

// clocks are the functions of package time that read a clock or wait for one.
var clocks = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// world is what a stepped package reaches only through its arguments.
var world = []string{"crypto/rand/...", "log/...", "math/rand/...", "net/...", "os/...", "plugin",
	"runtime/...", "sync/...", "syscall/...", "testing/..."}

var purePackages = []pure{
	{
		folder:    "lockcore",
		libraries: []string{"github.com/fxamacker/cbor/v2", "github.com/tidwall/btree"},
		forbidden: append([]string{"maps", "reflect"}, world...), // both hand out maps in no order
	},
	{
		folder:    "lockcore/leader",
		forbidden: world,
		mapOrder:  true, // it sorts, and what it decides is no replica's state
	},
}

// checkPure holds the code of the pure packages, tests apart, to what they may use.
func checkPure(repo tree) []string {
	var findings []string
	for _, p := range purePackages {
		var files []goFile
		for _, f := range repo.goFiles() {
			if f.folder == p.folder && !f.test {
				files = append(files, f)
				findings = append(findings, p.checkImports(f)...)
				findings = append(findings, checkSyntax(f)...)
			}
		}
		if !p.mapOrder {
			findings = append(findings, checkRanges(files)...)
		}
	}
	return findings
}

func (p pure) checkImports(f goFile) []string {
	var findings []string
	for _, imported := range f.imports() {
		first, _, _ := strings.Cut(imported, "/")
		_, ours := house(imported)
		switch {
		case slices.ContainsFunc(p.forbidden, func(pattern string) bool { return matches(pattern, imported) }):
			findings = append(findings, fmt.Sprintf("%s: %s must do without %s", f.path, p.folder, imported))
		case !ours && strings.Contains(first, ".") && !slices.Contains(p.libraries, imported):
			findings = append(findings, fmt.Sprintf("%s: %s may not import %s", f.path, p.folder, imported))
		}
	}
	return findings
}

// checkSyntax finds goroutines, channels' selects and clocks.
func checkSyntax(f goFile) []string {
	var findings []string
	found := func(n ast.Node, what string) { findings = append(findings, f.at(n)+": "+what) }
	clock := localName(f, "time")
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found(n, "starts a goroutine")
		case *ast.SelectStmt:
			found(n, "selects at random")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clocks, n.Sel.Name) {
				found(n, "reads a clock: time."+n.Sel.Name)
			}
		}
		return true
	})
	if clock == "." {
		found(f.syntax.Name, "imports time without its name")
	}
	return findings
}

// localName is how the file calls an import; empty: it has none.
func localName(f goFile, importPath string) string {
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value != `"`+importPath+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return importPath
	}
	return ""
}

// orderFree marks, in a comment on the line, a range over a map whose order changes nothing.
const orderFree = "order-free:"

// checkRanges finds ranges over maps, and over what it cannot tell from a map because another package made it.
func checkRanges(files []goFile) []string {
	known := typesOf(files)
	var findings []string
	for _, f := range files {
		free := linesWith(f, orderFree)
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok || free[f.line(loop.Pos())] {
				return true
			}
			if fault := orderFault(known[loop.X].Type); fault != "" {
				findings = append(findings, f.at(loop)+": "+fault)
			}
			return true
		})
	}
	return findings
}

// orderFault says what is wrong with ranging over a value of the type.
func orderFault(t types.Type) string {
	if t == nil || t == types.Typ[types.Invalid] {
		return "ranges over a value whose type is made elsewhere: give it a type of this package first"
	}
	if _, isMap := t.Underlying().(*types.Map); isMap {
		return "ranges over a map, whose order differs from replica to replica"
	}
	if _, isFunc := t.Underlying().(*types.Signature); isFunc {
		return "ranges over an iterator, whose order is not seen here"
	}
	return ""
}

// typesOf checks a package by itself, without those that it imports, and gives the types of its expressions as far as
// they follow from it alone.
func typesOf(files []goFile) map[ast.Expr]types.TypeAndValue {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if len(files) == 0 {
		return info.Types
	}
	var syntax []*ast.File
	for _, f := range files {
		syntax = append(syntax, f.syntax)
	}
	config := types.Config{Error: func(error) {}, Importer: importsNothing{}} // what is imported stays unknown
	_, _ = config.Check(files[0].folder, files[0].set, syntax, info)
	return info.Types
}

// importsNothing imports no package.
type importsNothing struct{}

func (importsNothing) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// linesWith finds the lines with a comment that says mark.
func linesWith(f goFile, mark string) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, mark) {
				lines[f.line(c.Pos())] = true
			}
		}
	}
	return lines
}
