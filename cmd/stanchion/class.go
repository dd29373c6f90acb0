package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stanchion-locks/stanchion/review"
)

func newClass() *cobra.Command {
	class := &cobra.Command{Use: "class", Short: "Class files: what a lock class promises when things break"}
	class.AddCommand(newClassLint(), newClassApply(), newClassDiff(), newClassWait(), newClassList(), newClassShow(),
		newClassRetire(), newClassTransferOwner())
	return class
}

func newClassLint() *cobra.Command {
	var output string
	lint := &cobra.Command{
		Use:   "lint FILES…",
		Short: "Check class files offline",
		Long: `Check class files offline: every rule, with file, line, column and how to mend it. With --output annotations a CI system shows them at their lines.
Exits 0 when no file is refused (warnings may be printed), 1 on errors, 2 on a wrong command line.
A file named - is read from standard input.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			return lintClasses(c.OutOrStdout(), c.InOrStdin(), files, output)
		},
	}
	outputFlag(lint, &output, "annotations")
	return lint
}

func lintClasses(out io.Writer, in io.Reader, files []string, output string) error {
	var findings review.Findings
	for _, name := range files {
		data, err := readClassFile(name, in)
		if err != nil {
			return err
		}
		_, found := review.Parse(name, data, review.Options{})
		findings = append(findings, found...)
	}
	findings.Sort()
	if err := printFindings(out, findings, output); err != nil {
		return err
	}
	if findings.Err() != nil {
		return exitError(exitFailed)
	}
	return nil
}

func printFindings(out io.Writer, findings review.Findings, output string) error {
	var err error
	switch output {
	case "json":
		_, err = out.Write(findings.JSON())
	case "annotations":
		_, err = io.WriteString(out, findings.Annotations())
	default:
		_, err = io.WriteString(out, findings.Text())
	}
	return err
}

// readClassFile reads a class file, but no more of it than a class file may have: the parser says when it is too large.
func readClassFile(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(in, review.FileBytesMax+1))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, review.FileBytesMax+1))
}
