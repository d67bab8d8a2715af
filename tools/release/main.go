// Command release puts a built antirobot into what operators install:
//
//	release packages -version 1.2.3 -arch amd64 -binary FILE -out dist      a deb and an rpm
//	release image -version 1.2.3 -out dist -binary amd64=FILE -binary arm64=FILE   an OCI image, as a directory and as an archive
//
// It runs in the root of the repository. The same input gives the same bytes: all times are -epoch.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// options are what both commands take.
type options struct {
	version  string
	arch     string            // of the packages
	binaries map[string]string // by architecture
	tool     string            // a binary for this machine, which writes manual pages
	out      string
	epoch    time.Time
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("what? packages or image")
	}
	o, err := parse(args[1:])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	switch args[0] {
	case "packages":
		return makePackages(o)
	case "image":
		return makeImage(o)
	}
	return fmt.Errorf("%q is neither packages nor image", args[0])
}

func parse(args []string) (*options, error) {
	o := &options{binaries: map[string]string{}}
	var epoch int64
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&o.version, "version", "", "of what is released")
	f.StringVar(&o.arch, "arch", "amd64", "of the packages")
	f.StringVar(&o.tool, "tool", "", "a binary that runs here; without it the one for -arch")
	f.StringVar(&o.out, "out", "dist", "where to write")
	f.Int64Var(&epoch, "epoch", 0, "the time of all files, in seconds since 1970")
	f.Func("binary", "the program: FILE, or ARCH=FILE", func(s string) error {
		arch, file, ok := strings.Cut(s, "=")
		if !ok {
			arch, file = "", s
		}
		o.binaries[arch] = file
		return nil
	})
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.version == "" || len(o.binaries) == 0 {
		return nil, errors.New("-version and -binary are needed")
	}
	o.epoch = time.Unix(epoch, 0).UTC()
	return o, nil
}
