package archtest

import (
	"strings"
	"testing"
)

// rule is one rule of the house, with proof that it can fail: breaks has made-up trees that it must object to, each with
// words that the finding says; keeps has one that it must accept.
type rule struct {
	name   string
	check  func(tree) []string
	breaks map[string]broken
	keeps  tree
}

type broken struct {
	repo tree
	says string
}

// code is a Go file with the given imports of ours or of others, and a body.
func code(name string, imports []string, body ...string) string {
	var b strings.Builder
	b.WriteString("package " + name + "\n")
	for _, p := range imports {
		b.WriteString("import \"" + p + "\"\n")
	}
	return b.String() + strings.Join(body, "\n") + "\n"
}

func ours(folders ...string) []string {
	var all []string
	for _, f := range folders {
		all = append(all, modulePath+"/"+f)
	}
	return all
}

var rules = []rule{
	{
		name: "imports follow the table", check: checkImports,
		breaks: map[string]broken{
			"core imports its leader":    {tree{"lockcore/a.go": code("lockcore", ours("lockcore/leader"))}, "lockcore may not import lockcore/leader"},
			"tenants imports review":     {tree{"tenants/a.go": code("tenants", ours("review"))}, "tenants may not import review"},
			"the SDK imports the core":   {tree{"client/a.go": code("client", ours("lockcore"))}, "client may not import lockcore"},
			"wire imports its parent":    {tree{"client/wire/a.go": code("wire", ours("client"))}, "client/wire may not import client"},
			"a folder without a row":     {tree{"internal/newcomer/a.go": code("newcomer", nil)}, "has no row"},
			"a child follows its row":    {tree{"review/deep/a.go": code("deep", ours("tenants"))}, "review may not import tenants"},
			"templates import a domain":  {tree{"templates/a.go": code("templates", ours("lockcore"))}, "templates may not import lockcore"},
			"a name that only begins so": {tree{"client/a.go": code("client", ours("clientele"))}, "client may not import clientele"},
		},
		keeps: tree{
			"lockcore/leader/a.go":    code("leader", ours("lockcore")),
			"lockcore/leader/in/a.go": code("in", ours("lockcore/leader")),
			"lockcore/a_test.go":      code("lockcore_test", ours("lockcore/lockcoretest")),
			"client/a.go":             code("client", ours("client/wire", "client/deadline")),
			"web/a.go":                code("web", ours("web/api", "templates", "internal/control")),
			"cmd/stanchion/a.go":      code("main", ours("lockcore/raftnode", "web")),
			"review/testdata/a.go":    code("x", ours("tenants")),
		},
	},
	{
		name: "libraries have one home", check: checkLibraries,
		breaks: map[string]broken{
			"the core imports Raft":    {tree{"lockcore/a.go": code("lockcore", []string{"github.com/hashicorp/raft"})}, "only lockcore/raftnode"},
			"a test imports a store":   {tree{"e2e/a_test.go": code("e2e", []string{"github.com/hashicorp/raft-boltdb/v2"})}, "only lockcore/raftnode"},
			"a child does not inherit": {tree{"lockcore/raftnode/x/a.go": code("x", []string{"github.com/hashicorp/raft"})}, "only lockcore/raftnode"},
		},
		keeps: tree{"lockcore/raftnode/a.go": code("raftnode", []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb/v2"})},
	},
	{
		name: "web never reaches Raft", check: checkWebIsFreeOfRaft,
		breaks: map[string]broken{
			"directly":           {tree{"web/console/a.go": code("console", ours("lockcore/raftnode"))}, "web/console reaches"},
			"in a test":          {tree{"web/a_test.go": code("web", ours("lockcore/raftnode"))}, "web reaches"},
			"by way of a domain": {tree{"web/a.go": code("web", ours("audit")), "audit/a.go": code("audit", ours("lockcore/raftnode"))}, "web → audit → lockcore/raftnode"},
		},
		keeps: tree{
			"web/a.go":           code("web", ours("audit")),
			"audit/a_test.go":    code("audit", ours("lockcore/raftnode")),
			"website/a.go":       code("website", ours("lockcore/raftnode")),
			"cmd/stanchion/a.go": code("main", ours("web", "lockcore/raftnode")),
		},
	},
	{
		name: "the core is deterministic", check: checkPure,
		breaks: map[string]broken{
			"a clock":               {pureFile([]string{"time"}, "var t = time.Now()"), "reads a clock"},
			"a clock under a name":  {tree{"lockcore/a.go": "package lockcore\nimport clock \"time\"\nvar t = clock.Since(x)\n"}, "reads a clock"},
			"a timer":               {pureFile([]string{"time"}, "func f() { <-time.After(1) }"), "reads a clock"},
			"time without its name": {tree{"lockcore/a.go": "package lockcore\nimport . \"time\"\nvar t = Now()\n"}, "without its name"},
			"randomness":            {pureFile([]string{"math/rand"}), "must do without math/rand"},
			"newer randomness":      {pureFile([]string{"math/rand/v2"}), "must do without math/rand/v2"},
			"strong randomness":     {pureFile([]string{"crypto/rand"}), "must do without crypto/rand"},
			"the system":            {pureFile([]string{"os"}), "must do without os"},
			"the network":           {pureFile([]string{"net/http"}), "must do without net/http"},
			"a mutex":               {pureFile([]string{"sync"}), "must do without sync"},
			"an atomic":             {pureFile([]string{"sync/atomic"}), "must do without sync/atomic"},
			"logging":               {pureFile([]string{"log/slog"}), "must do without log/slog"},
			"map iterators":         {pureFile([]string{"maps"}), "must do without maps"},
			"another library":       {pureFile([]string{"github.com/hashicorp/go-hclog"}), "may not import github.com/hashicorp/go-hclog"},
			"a goroutine":           {pureFile(nil, "func f() { go f() }"), "starts a goroutine"},
			"a select":              {pureFile(nil, "func f() { select {} }"), "selects at random"},
			"a range over a map":    {pureFile(nil, "func f(m map[string]int) { for range m {} }"), "ranges over a map"},
			"over a named map":      {pureFile(nil, "type set map[string]bool", "type box struct{ s set }", "func f(b box) { for k := range b.s { _ = k } }"), "ranges over a map"},
			"over what a call made": {pureFile(nil, "func m() map[int]int { return nil }", "func f() { for range m() {} }"), "ranges over a map"},
			"over a foreign value":  {pureFile([]string{"fmt"}, "func f() { for range fmt.Map() {} }"), "made elsewhere"},
			"over an iterator":      {pureFile(nil, "func f(s func(func(int) bool)) { for range s {} }"), "an iterator"},
			"a comment elsewhere":   {pureFile(nil, "// order-free: no", "func f(m map[string]int) { for range m {} }"), "ranges over a map"},
			"a leader with a clock": {tree{"lockcore/leader/a.go": code("leader", []string{"time"}, "var t = time.Now()")}, "reads a clock"},
			"a leader that starts":  {tree{"lockcore/leader/a.go": code("leader", nil, "func f() { go f() }")}, "starts a goroutine"},
		},
		keeps: tree{
			"lockcore/a.go": code("lockcore", []string{"fmt", "time", "github.com/tidwall/btree", "github.com/fxamacker/cbor/v2"},
				"const d = time.Second",
				"type row struct{}",
				"func rows() []*row { return nil }",
				"func f(m map[string]int) { for range m {} } // order-free: it only counts",
				"func g(m map[string]int) { for i := range len(m) { _ = i }; for _, r := range rows() { _ = r } }",
				"func h(s string, a [3]int) { for range s {}; for range a {}; for range [...]string{s} {} }"),
			"lockcore/a_test.go":     code("lockcore", []string{"os", "sync"}, "func f() { go f() }"),
			"lockcore/leader/a.go":   code("leader", []string{"maps", "time"}, "func f(m map[int]time.Duration) { for range m {} }"),
			"lockcore/raftnode/a.go": code("raftnode", []string{"os", "sync", "time"}, "var t = time.Now()"),
		},
	},
	{
		name: "top-level folders are those of the list", check: checkTopFolders,
		breaks: map[string]broken{
			"a new one":       {tree{"pkg/a.txt": ""}, "no top-level folder is called pkg"},
			"a hidden one":    {tree{".github/a.yaml": ""}, "no top-level folder is called .github"},
			"Go at the root":  {tree{"main.go": code("main", nil)}, "at the root"},
			"Go in deploy":    {tree{"deploy/gen/a.go": code("gen", nil)}, "in deploy"},
			"one in capitals": {tree{"Web/a.txt": ""}, "no top-level folder is called Web"},
		},
		keeps: tree{"README.md": "", ".ci/run": "", "web/a.go": code("web", nil), "deploy/unit": ""},
	},
	{
		name: "package names say something", check: checkNames,
		breaks: map[string]broken{
			"by its folder": {tree{"web/util/a.go": code("text", nil)}, "called util"},
			"by its clause": {tree{"web/text/a.go": code("helpers", nil)}, "called helpers"},
			"in a test":     {tree{"web/text/a_test.go": code("common_test", nil)}, "called common"},
		},
		keeps: tree{"web/utility/a.go": code("utility", nil)},
	},
	{
		name: "the Raft library's traps are not stepped into", check: checkCalls,
		breaks: map[string]broken{
			"its leadership check": {tree{"e2e/a_test.go": "package e2e\n// r.Verify" + "Leader()\n"}, "calls"},
			"its transfer":         {tree{"lockcore/raftnode/a.go": "package raftnode\nvar f = r.Leadership" + "Transfer()\n"}, "calls"},
			"its transfer to one":  {tree{"lockcore/raftnode/a.go": "package raftnode\nvar f = r.Leadership" + "TransferToServer(id, addr)\n"}, "calls"},
		},
		keeps: tree{"lockcore/raftnode/a.go": "package raftnode\nvar e = raft.ErrLeadership" + "TransferInProgress\n"},
	},
	{
		name: "nothing leads out of the repository", check: checkPaths,
		breaks: map[string]broken{
			"somebody's folder":      {tree{"docs/a.md": "see /ho" + "me/ada/notes"}, "a path of one machine"},
			"in code":                {tree{"web/a.go": code("web", nil, `var p = "/wo`+`rk/list"`)}, "a path of one machine"},
			"climbing in code":       {tree{"web/a.go": code("web", nil, `var p = "../../other/list"`)}, "leads out of the repository"},
			"climbing by steps":      {tree{"web/a.go": code("web", nil, `var p = filepath.Join("..", "..")`)}, "leads out of the repository"},
			"a folder above":         {tree{"web/api/a.go": code("api", nil, `var p = os.DirFS("../../..")`)}, "leads out of the repository"},
			"climbing in a document": {tree{"docs/a.md": "[notes](../../notes.md)"}, "links out of the repository"},
			"a dead link":            {tree{"docs/a.md": "[b](b.md#part)"}, "links to nothing"},
		},
		keeps: tree{
			"docs/a.md": "[b](b.md#part) [web](../web) [site](https://example.com/a) [here](#there) at /t/acme/wo" + "rk/list or ./home/x",
			"docs/b.md": "",
			"web/a.go":  code("web", nil, `var p, q, r = "../docs/a.md", "/healthz", "../.."`, `var s = filepath.Join("..", "docs")`),
		},
	},
	{
		name: "build and test name no host", check: checkHosts,
		breaks: map[string]broken{
			"an address": {tree{"Makefile": "get:\n\tcurl http://10.0.0.1/x\n"}, "names a host"},
			"a name":     {tree{".ci/run": "ping mirror.example.org\n"}, "names a host"},
		},
		keeps: tree{"Makefile": "test:\n\tgo test ./...\n", "README.md": "https://example.org"},
	},
}

func pureFile(imports []string, body ...string) tree {
	return tree{"lockcore/a.go": code("lockcore", imports, body...)}
}

func TestHouse_keepsItsRules(t *testing.T) {
	repo := repository(t)
	if len(repo.goFiles()) == 0 {
		t.Fatal("the repository has no Go files: nothing was checked")
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(repo) {
				t.Error(finding)
			}
		})
	}
}

func TestRules_objectToWhatBreaksThem(t *testing.T) {
	for _, r := range rules {
		for name, b := range r.breaks {
			t.Run(r.name+"/"+name, func(t *testing.T) {
				if got := strings.Join(r.check(b.repo), "\n"); !strings.Contains(got, b.says) {
					t.Errorf("findings: got %q, want one that says %q", got, b.says)
				}
			})
		}
	}
}

func TestRules_acceptWhatKeepsThem(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if got := r.check(r.keeps); len(got) != 0 {
				t.Errorf("findings: got %q, want none", got)
			}
		})
	}
}
