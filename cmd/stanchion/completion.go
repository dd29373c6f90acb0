package main

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
	"github.com/stanchion-locks/stanchion/tenants"
)

// completionTime bounds what a shell waits for a cluster when it completes a word.
const completionTime = 1500 * time.Millisecond

// completer gives the values that a word may become. It never fails: what it cannot find out it leaves out.
type completer func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// flagCompleters are by the flag's name. A flag without one is completed as the shell does, with files.
var flagCompleters = map[string]completer{
	"class": names(classNames), "key": names(keysOfFlag), "tenant": names(tenantNames), "api-key-id": names(apiKeyIDs),
	"profile": profileNames, "if-held": fixed("wait", "skip", "fail"), "kind": kinds, "scope": scopes,
	"config": files("yaml", "yml"), "classes": folders, "data": folders, "ca-file": files("pem", "crt", "cer"), "file": files("db"),
	"export": files("ndjson"), "socket": files("sock"),
	"endpoints": nothing, "reason": nothing, "name": nothing, "owner-group": nothing, "from": nothing, "token": nothing,
	"version": nothing, "timeout": nothing, "wait": nothing, "limit": nothing, "cursor": nothing, "expires-in": nothing, "overlap": nothing,
	"prefix": nothing, "holder": nothing, "text": nothing, "row": nothing, "index": nothing,
}

// argumentCompleters are by the word that stands for the argument in a command's Use.
var argumentCompleters = map[string]completer{
	"CLASS": names(classNames), "KEY": names(keysOfArgument), "TENANT": names(tenantNames), "ID": names(apiKeyIDs),
	"ID|self": names(apiKeyIDsAndSelf), "FILES…": files("yaml", "yml", "json"),
}

// completeFlags gives every command under c what completes its flags and arguments, unless it has something of its own.
func completeFlags(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := completerOf(c, f); complete != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.CompletionFunc(complete)) // it fails where the command has one already
		}
	})
	if wanted := argumentsOf(c); len(wanted) > 0 && c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			name := wanted[min(len(args), len(wanted)-1)]
			if len(args) >= len(wanted) && !strings.HasSuffix(name, "…") {
				return nothing(c, args, begun)
			}
			return argumentCompleters[name](c, args, begun)
		}
	}
}

// completerOf is what completes a flag. Nil: the shell.
func completerOf(c *cobra.Command, f *pflag.Flag) completer {
	if closed, ok := f.Value.(choice); ok {
		return fixed(closed.of...)
	}
	if f.Name == "profile" && c.Flags().Lookup("output") == nil && c.Flags().Lookup("endpoints") == nil {
		return fixed("production", "dev", "test") // a node's, in `stanchion dev`
	}
	return flagCompleters[f.Name]
}

// argumentsOf are the arguments that a command's Use names and that can be completed.
func argumentsOf(c *cobra.Command) []string {
	words := strings.Fields(c.Use)
	known := func(word string) bool { return argumentCompleters[word] != nil }
	first := slices.IndexFunc(words, known)
	if first != 1 {
		return nil
	}
	last := first
	for last < len(words) && known(words[last]) {
		last++
	}
	return words[first:last]
}

// fixed offers values that are always the same.
func fixed(values ...string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// nothing offers nothing: what is wanted is nobody else's to know.
func nothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// files offers files whose names end so.
func files(endings ...string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}

func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// kinds offers kinds of events, also after a comma.
func kinds(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	var all []cobra.Completion
	for _, k := range audit.Kinds() {
		all = append(all, cobra.CompletionWithDesc(before+k.Name, k.Meaning))
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// scopes offers what an API key may do; a class or the beginning of one is to follow where a colon ends it.
func scopes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, s := range []struct {
		verb tenants.Verb
		what string
	}{
		{tenants.VerbLocks + ":", "take, keep and look at locks of these classes"}, {tenants.VerbDeclareClasses + ":", "declare versions of these classes"},
		{tenants.VerbReadAudit, "read and export the audit"}, {tenants.VerbReportGuard, "report what a guard has refused"},
		{tenants.VerbAdministerTenant, "API keys and force-release"}, {tenants.VerbOperatePlatform, "tenants of the platform"},
	} {
		all = append(all, cobra.CompletionWithDesc(string(s.verb), s.what))
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// profileNames offers the profiles of the profile file.
func profileNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := readProfiles(profilePath())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return typeable(file.names()), cobra.ShellCompDirectiveNoFileComp
}

// asker is a question to the cluster. What it is given of names may be described after a tab.
type asker func(ctx context.Context, api *apiClient, c *cobra.Command, args []string, begun string) ([]string, error)

// names offers what the cluster answers, or nothing when it does not do so soon.
func names(ask asker) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		o := clientOptions{endpoints: flagValue(c, "endpoints"), keyFile: flagValue(c, "api-key-file"), caFile: flagValue(c, "ca-file"),
			profile: flagValue(c, "profile")}
		api, err := o.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api.patience = 0
		parent := c.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionTime)
		defer cancel()
		all, err := ask(ctx, api, c, args, begun)
		if err != nil {
			all = nil
		}
		return typeable(all), cobra.ShellCompDirectiveNoFileComp
	}
}

// flagValue is a flag's value; a command without the flag has none.
func flagValue(c *cobra.Command, name string) string {
	if f := c.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// typeable leaves names out that nobody could type, or that a shell or a command would take for something else.
func typeable(all []string) []cobra.Completion {
	return slices.DeleteFunc(all, func(text string) bool {
		name, _, _ := strings.Cut(text, "\t")
		return strings.HasPrefix(name, "-") || visible(name) != name || wire.Shown(name) != name || strings.ContainsAny(name, " '\"`$;&|<>()*?[]{}!#~")
	})
}

// completionsMax bounds what is asked for to complete a word.
const completionsMax = 200

func page() url.Values { return url.Values{"limit": {strconv.Itoa(completionsMax)}} }

func classNames(ctx context.Context, api *apiClient, _ *cobra.Command, _ []string, _ string) ([]string, error) {
	var list wire.ClassList
	_, err := api.call(ctx, apiRequest{method: "GET", path: "/v1/classes", query: page()}, &list)
	var all []string
	for _, c := range list.Classes {
		all = append(all, c.Class+"\t"+string(c.State))
	}
	return all, err
}

func keysOfFlag(ctx context.Context, api *apiClient, c *cobra.Command, _ []string, begun string) ([]string, error) {
	return keysOf(ctx, api, flagValue(c, "class"), begun)
}

func keysOfArgument(ctx context.Context, api *apiClient, _ *cobra.Command, args []string, begun string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return keysOf(ctx, api, args[0], begun)
}

// keysOf are keys that are held or waited for. Where no class is named yet they are of all classes.
func keysOf(ctx context.Context, api *apiClient, class, begun string) ([]string, error) {
	query := page()
	for name, value := range map[string]string{"class": class, "prefix": begun} {
		if value != "" {
			query.Set(name, value)
		}
	}
	list, err := api.locks(ctx, query)
	var all []string
	for _, l := range list.Locks {
		all = append(all, l.Key)
	}
	return all, err
}

func tenantNames(ctx context.Context, api *apiClient, _ *cobra.Command, _ []string, _ string) ([]string, error) {
	var list wire.TenantList
	_, err := api.call(ctx, apiRequest{method: "GET", path: "/v1/tenants", query: page()}, &list)
	var all []string
	for _, t := range list.Tenants {
		all = append(all, t.Tenant+"\t"+string(t.State))
	}
	return all, err
}

func apiKeyIDs(ctx context.Context, api *apiClient, c *cobra.Command, _ []string, _ string) ([]string, error) {
	var list wire.APIKeyList
	o := keyOptions{tenant: flagValue(c, "tenant")}
	_, err := api.call(ctx, apiRequest{method: "GET", path: o.path(), query: page()}, &list)
	var all []string
	for _, k := range list.APIKeys {
		all = append(all, k.ID+"\t"+visible(k.Name))
	}
	return all, err
}

func apiKeyIDsAndSelf(ctx context.Context, api *apiClient, c *cobra.Command, args []string, begun string) ([]string, error) {
	all, _ := apiKeyIDs(ctx, api, c, args, begun) // "self" needs no answer
	return append(all, "self\tthe API key that asks"), nil
}
