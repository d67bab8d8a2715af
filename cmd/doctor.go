package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"antirobot/config"
	"antirobot/problem"
	"antirobot/proxy/h1/hello"
	"antirobot/verdict/words"
)

type finding struct {
	State string `json:"state"` // ok, look or bad
	What  string `json:"what"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// The states of findings.
const (
	healthy = "ok"
	look    = "look"
	bad     = "bad"
)

// doctor looks at a gateway, its machine and its surroundings.
type doctor struct {
	cfg *config.Config
	api apiClient
	cmd *cobra.Command
	all []finding
}

func (d *doctor) say(state, what, do, format string, args ...any) {
	d.all = append(d.all, finding{State: state, What: what, Says: fmt.Sprintf(format, args...), Do: do})
}

func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the configuration, the machine and the surroundings of a gateway, and say what to do",
		Long: `Look at the configuration, keys, disk, clock, names, services, trusted proxies, private listener, certificates
and limits of the kernel, and at the gateway itself if it runs. Run it on the gateway's machine and as its user. It
changes nothing; it calls the services, the machine's resolver, the provider of sign-ins (admin.oidc) and the private
listener. The exit status is 1 if something is bad; what is only worth a look is none.`,
		Example: "  antirobot doctor\n  antirobot doctor --config /etc/antirobot/antirobot.yaml --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := sourcesOf(cmd.Flags(), "")
			if err != nil {
				return err
			}
			d := &doctor{cmd: cmd}
			d.examine(sources)
			return d.report(cmd.OutOrStdout(), asJSON)
		},
	}
	registerServeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// examine looks at everything that can be looked at.
func (d *doctor) examine(sources *config.Sources) {
	name := sources.File
	if name == "" {
		name = "no file"
	}
	cfg, err := sources.Read()
	if here := gatewayHere(sources); err != nil && here.DataDir == demoDataDir {
		d.say(look, "configuration", "", "there is none here: this looks at the demo, which has its own")
		cfg, err = here, nil
	}
	if err != nil {
		d.say(bad, "configuration", "mend it; until then nothing else can be looked at", "%s: %s", name,
			strings.Join(problem.Lines(err), "; "))
		return
	}
	d.cfg = cfg
	d.api = apiClient{
		admin: nearAddress(cfg.Admin.Listen), dataDir: cfg.DataDir, tokenFile: cfg.Admin.TokenFile,
		located: true,
	}
	if cfg.Admin.TLSCert != "" {
		d.api.admin = "https://" + d.api.admin
	}
	if err := cfg.CheckFiles(); err != nil {
		d.say(bad, "configuration", "mend what it names", "%s: %s", name, strings.Join(problem.Lines(err), "; "))
	} else if len(cfg.Resolved) > 0 {
		d.say(healthy, "configuration", "", "%s, %s", name, words.Sprintf(words.English, "%d {service|services}",
			len(cfg.Resolved)))
	}
	for _, w := range cfg.Warnings() {
		d.say(look, "configuration", "", "%s", w)
	}
	for i := range cfg.Resolved {
		if mode := cfg.Resolved[i].Verdict.Mode; mode != "enforce" {
			d.say(look, "mode", "set verdict.mode: enforce when you have seen whom it would stop",
				"service %s is in mode %s: it stops nobody yet", cfg.Resolved[i].Name, mode)
		}
	}
	d.keys()
	d.disk()
	d.certificates(time.Now())
	d.kernel()
	ctx, cancel := context.WithTimeout(d.cmd.Context(), time.Minute)
	defer cancel()
	d.names(ctx)
	d.services(ctx)
	d.stores(ctx)
	d.signIn(ctx)
	d.gateway(ctx)
}

func (d *doctor) keys() {
	const others, anybodyElse = 0o007, 0o077 // a token may be for a group: secrets of Kubernetes are
	ring, ringMade := d.cfg.KeyFile(), "it is made at the first start"
	if copied := d.cfg.KeyCopy(); copied != "" {
		ring, ringMade = copied, "the ring is in the shared store, and is copied at the first start"
	}
	for _, secret := range [...]struct {
		what, file, made string
		closed           os.FileMode
	}{
		{"keys", ring, ringMade, anybodyElse}, {"token", tokenFile(d.cfg), "it is made at the first start", others},
	} {
		what, file := secret.what, secret.file
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			d.say(look, what, "", "%s is not there yet: %s", file, secret.made)
		case err != nil:
			d.say(bad, what, "run this as the gateway's user", "%v", err)
		case info.Mode().Perm()&secret.closed != 0:
			d.say(bad, what, "chmod 600 "+file, "%s can be read by others (mode %04o)", file, info.Mode().Perm())
		default:
			d.say(healthy, what, "", "%s, mode %04o", file, info.Mode().Perm())
		}
	}
}

// disk looks at the data directory: whether it can be written, and how much room there is.
func (d *doctor) disk() {
	dir := d.cfg.DataDir
	probe, err := os.CreateTemp(dir, ".doctor-*")
	if errors.Is(err, os.ErrNotExist) {
		d.say(look, "disk", "", "%s is not there yet: it is made at the first start", dir)
		return
	}
	if err != nil {
		d.say(bad, "disk", "give the directory to the gateway's user, or run this as that user", "%v", err)
		return
	}
	probe.Close()
	os.Remove(probe.Name())
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		d.say(look, "disk", "", "how much room is left is not known: %v", err)
		return
	}
	const gib = 1 << 30
	free, need := float64(st.Bavail)*float64(st.Bsize)/gib, float64(256<<20)/gib
	if d.cfg.Journal.Enabled {
		need += float64(d.cfg.Journal.MaxBytes) / gib
	}
	if free < need {
		d.say(bad, "disk", "make room, or lower journal.max_bytes",
			"%s has %.1f GiB left; store and journal may grow to %.1f GiB", dir, free, need)
		return
	}
	d.say(healthy, "disk", "", "%s can be written, %.1f GiB are left", dir, free)
}

func (d *doctor) certificates(at time.Time) {
	for i := range d.cfg.Listen {
		files := d.cfg.Listen[i].Files()
		if len(files) == 0 {
			continue
		}
		certs, err := hello.LoadCertificates(files)
		if err != nil {
			continue // CheckFiles has said it
		}
		for name, until := range certs.Ends() {
			switch left := until.Sub(at); {
			case left <= 0:
				d.say(bad, "certificate", "renew it and reload", "%s ended on %s", name, until.Format(time.DateOnly))
			case left < d.cfg.Alarms.Certificate:
				d.say(look, "certificate", "renew it and reload", "%s ends on %s", name, until.Format(time.DateOnly))
			default:
				d.say(healthy, "certificate", "", "%s, until %s", name, until.Format(time.DateOnly))
			}
		}
	}
}

// report prints the findings, and returns an error if something is bad.
func (d *doctor) report(w io.Writer, asJSON bool) error {
	wrong := 0
	for _, f := range d.all {
		if f.State == bad {
			wrong++
		}
	}
	if asJSON {
		if err := json.NewEncoder(w).Encode(map[string]any{"findings": d.all}); err != nil {
			return err
		}
	} else {
		on := coloured(w)
		for _, f := range d.all {
			colour := map[string]string{healthy: green, look: yellow, bad: red}[f.State]
			fmt.Fprintf(w, "%s %-14s %s\n", paint(on, colour, fmt.Sprintf("%-5s", f.State)), f.What, f.Says)
			if f.Do != "" {
				fmt.Fprintf(w, "      %-14s do: %s\n", "", f.Do)
			}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s bad", words.Sprintf(words.English, "%d {finding|findings}", wrong))
	}
	return nil
}
