package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag that takes one of a few values. Its values are offered by the shell's completion, and every other one is
// the same usage error for every command.
type choice struct {
	value *string
	of    []string
}

// String is the value, for the flag's package.
func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Set takes one of the values. Any other is a notChosen.
func (c choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return notChosen{text, c.of}
	}
	*c.value = text
	return nil
}

// Type names what the flag takes, for the flag's package.
func (c choice) Type() string { return "string" }

// notChosen is a value that a flag does not take. It is an errUsage.
type notChosen struct {
	text string
	of   []string
}

func (e notChosen) Error() string {
	return fmt.Sprintf("%s is none of %s", visible(e.text), strings.Join(e.of, ", "))
}

// Is reports whether target is errUsage.
func (e notChosen) Is(target error) bool { return target == errUsage }

// choiceFlag adds a flag that takes one of the values in of; the first one is the default.
func choiceFlag(c *cobra.Command, value *string, name, usage string, of ...string) {
	*value = of[0]
	c.Flags().Var(choice{value, of}, name, usage)
}

// outputFlag adds --output, which says in which form a command prints its result: a table for people, or JSON. A command that has
// other forms besides names them.
func outputFlag(c *cobra.Command, value *string, also ...string) {
	of := append([]string{"table", "json"}, also...)
	choiceFlag(c, value, "output", either(of), of...)
}

// either lists words of which one is meant; there is at least one.
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
