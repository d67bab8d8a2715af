package cmd

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// licences are the licences of all modules in the program and of Go itself, compressed. They are collected by
// `go test ./cmd -run TestLicences -update`; the test says when they are out of date.
//
//go:embed licences.txt.gz
var licences []byte

func licencesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "licences",
		Short: "Print the licences of everything that is inside this program",
		Long: `Print the name, the version and the licence of every library that is inside this program, and of Go itself.
Libraries with the same text stand together.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := gzip.NewReader(bytes.NewReader(licences))
			if err != nil {
				return fmt.Errorf("licences: %w", err)
			}
			_, err = io.Copy(cmd.OutOrStdout(), text) //nolint:gosec // the archive is part of the program
			return err
		},
	}
}
