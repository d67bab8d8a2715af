package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// makePackages writes a deb and an rpm as deploy/package/nfpm.yaml says.
func makePackages(o *options) error {
	stage, err := os.MkdirTemp("", "antirobot-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	binary := o.binaries[""]
	if binary == "" {
		binary = o.binaries[o.arch]
	}
	if o.tool == "" {
		o.tool = binary
	}
	if err := writeStage(o, stage); err != nil {
		return err
	}
	text, err := os.ReadFile("deploy/package/nfpm.yaml")
	if err != nil {
		return err
	}
	config, err := nfpm.ParseWithEnvMapping(bytes.NewReader(text), func(name string) string {
		return map[string]string{
			"VERSION": o.version, "ARCH": o.arch, "BINARY": binary, "STAGE": stage, "SOURCE_DATE_EPOCH": fmt.Sprint(o.epoch.Unix()),
		}[name]
	})
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := makePackage(o, &config, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

func makePackage(o *options, config *nfpm.Config, format string) error {
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = o.epoch
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	name := filepath.Join(o.out, packager.ConventionalFileName(info))
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		f.Close()
		return err
	}
	fmt.Println(name)
	return f.Close()
}

// writeStage writes what the program says of itself: manual pages, completions, licences.
func writeStage(o *options, stage string) error {
	tool, err := filepath.Abs(o.tool)
	if err != nil {
		return err
	}
	if out, err := exec.Command(tool, "man", filepath.Join(stage, "man")).CombinedOutput(); err != nil {
		return fmt.Errorf("manual pages: %w\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(stage, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("no manual pages: %w", err)
	}
	for _, page := range pages {
		if err := compress(page); err != nil {
			return err
		}
	}
	for name, args := range map[string]string{
		"antirobot.bash": "completion bash", "_antirobot": "completion zsh", "antirobot.fish": "completion fish", "LICENCES": "licences",
	} {
		out, err := exec.Command(tool, strings.Fields(args)...).Output()
		if err != nil {
			return fmt.Errorf("antirobot %s: %w", args, err)
		}
		if err := os.WriteFile(filepath.Join(stage, name), out, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compress replaces a file by its gzip, without a time or a name in it.
func compress(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(file+".gz", b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Remove(file)
}
