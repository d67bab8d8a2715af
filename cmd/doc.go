// Package cmd is the command line: the commands, the API client that some of them use, and the progress display of long
// ones.
package cmd
