// Package archtest holds the tests of the house's shape: which package may import which, what the state machine may not
// touch, which folders and names there are, and words that no file may contain.
//
// Every rule is a function from a [tree] of files to findings, so that it can be shown to fail on a few lines of made-up
// source. The rules read import clauses and syntax only: they hold, or not, also while a package does not compile. The
// package knows nothing of locks and is imported by nobody.
package archtest
