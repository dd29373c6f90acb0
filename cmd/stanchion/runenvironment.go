package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stanchion-locks/stanchion/client"
)

// grantVariables are what the command is told of its grant.
var grantVariables = []string{"STANCHION_TOKEN", "STANCHION_KEY", "STANCHION_EPOCH", "STANCHION_CLASS"}

// secretVariable holds the API key.
const secretVariable = "STANCHION_API_KEY"

// withoutSecret is an environment without the API key, under whatever name, and without variables of the names dropped.
func withoutSecret(inherited []string, apiKey string, dropped ...string) []string {
	env := make([]string, 0, len(inherited)+len(grantVariables))
	for _, variable := range inherited {
		name, value, _ := strings.Cut(variable, "=")
		secret := name == secretVariable || apiKey != "" && strings.Contains(value, apiKey)
		if !secret && !slices.Contains(dropped, name) {
			env = append(env, variable)
		}
	}
	return env
}

// commandEnvironment is the command's: what was inherited, and its grant. What looks like a grant and was inherited is
// another one's, of a run around this one.
func commandEnvironment(inherited []string, apiKey string, l *client.Lease) []string {
	return append(withoutSecret(inherited, apiKey, grantVariables...), "STANCHION_TOKEN="+strconv.FormatUint(l.Token(), 10),
		"STANCHION_KEY="+l.Key(), "STANCHION_EPOCH="+strconv.FormatUint(l.Epoch(), 10), "STANCHION_CLASS="+l.Class())
}
