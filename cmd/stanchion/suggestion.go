package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupOfCommands marks a command that does nothing itself.
const groupOfCommands = "group"

// likenessMax is how many letters a misspelled word may have wrong.
const likenessMax = 2

// checkSubcommands makes every command that others stand under refuse a word that is none of them, with those that are like it.
// Without a word such a command shows its help, unless it does something itself.
func checkSubcommands(c *cobra.Command) {
	for _, sub := range c.Commands() {
		checkSubcommands(sub)
	}
	if !c.HasSubCommands() {
		return
	}
	c.SuggestionsMinimumDistance = likenessMax
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return withRemedy(fmt.Errorf("%w: unknown command %q for %q", errUsage, args[0], c.CommandPath()),
			didYouMean(c.SuggestionsFor(args[0]), c.CommandPath()))
	}
	if !c.Runnable() {
		c.Annotations = map[string]string{groupOfCommands: "true"}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// didYouMean says what else there is.
func didYouMean(like []string, path string) string {
	help := fmt.Sprintf("see '%s --help'", path)
	if len(like) == 0 {
		return help
	}
	return fmt.Sprintf("did you mean %s? Otherwise %s", either(like), help)
}

// flagError is a usage error about flags, with the flags that are like one that does not exist.
func flagError(c *cobra.Command, err error) error {
	var like []string
	missing, isMissing := errors.AsType[*pflag.NotExistError](err)
	invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err)
	none, isNone := errors.AsType[notChosen](err)
	switch {
	case isMissing:
		like = flagsLike(c, missing.GetSpecifiedName())
	case isInvalid && isNone:
		err = fmt.Errorf("--%s %w", invalid.GetFlag().Name, none)
	}
	return withRemedy(fmt.Errorf("%w: %w", errUsage, err), didYouMean(like, c.CommandPath()))
}

// flagsLike are the command's flags that are spelled almost like the name, in the order of the alphabet.
func flagsLike(c *cobra.Command, name string) []string {
	var like []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 && (distance(name, f.Name) <= likenessMax || strings.HasPrefix(f.Name, name)) {
			like = append(like, "--"+f.Name)
		}
	})
	return like
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from what was seen of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := left
			if a[i] != b[j] {
				change++
			}
			left = row[j+1]
			row[j+1] = min(change, row[j]+1, left+1)
		}
	}
	return row[len(b)]
}
