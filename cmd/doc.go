// Package cmd is the command line: the commands, the client of the private API that some of them are, and how far a long
// one has come.
package cmd
