package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"antirobot/config"
	"antirobot/console"
	"antirobot/gateway"
	"antirobot/journal"
	"antirobot/problem"
	"antirobot/proxy/h1/hello"
	"antirobot/proxy/h3"
	"antirobot/request"
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
	api client
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
	d.api = client{admin: adminURL(cfg), dataDir: cfg.DataDir, tokenFile: cfg.Admin.TokenFile, located: true}
	if err := cfg.CheckFiles(); err != nil {
		d.say(bad, "configuration", "mend what it names", "%s: %s", name, strings.Join(problem.Lines(err), "; "))
	} else if len(cfg.Resolved) > 0 {
		d.say(healthy, "configuration", "", "%s, %s", name, counted("%d {service|services}", len(cfg.Resolved)))
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
	if d.cfg.Journal.MaxBytes > 0 {
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
		paint := painter(w)
		for _, f := range d.all {
			colour := map[string]string{healthy: green, look: yellow, bad: red}[f.State]
			fmt.Fprintf(w, "%s %-14s %s\n", paint(colour, fmt.Sprintf("%-5s", f.State)), f.What, f.Says)
			if f.Do != "" {
				fmt.Fprintf(w, "      %-14s do: %s\n", "", f.Do)
			}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s bad", counted("%d {finding|findings}", wrong))
	}
	return nil
}

// kernel looks at the limits that a busy gateway meets.
func (d *doctor) kernel() {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		most := uint64(files.Max) //nolint:unconvert // signed on FreeBSD; the soft limit is raised to it at start
		d.all = append(d.all, filesFor(most, d.cfg.HTTP.MaxConns))
	}
	const least = 1024
	if n, ok := kernelLimit("somaxconn"); ok && n < least {
		d.say(look, "backlog", fmt.Sprintf("sysctl -w net.core.somaxconn=%d", least),
			"net.core.somaxconn is %d: a burst of connections is refused by the kernel", n)
	}
	if !slices.ContainsFunc(d.cfg.Listen, func(l config.Listener) bool { return l.HTTP3 }) {
		return
	}
	for _, name := range []string{"rmem_max", "wmem_max"} {
		if n, ok := kernelLimit(name); ok && n < h3.WantedBuffer {
			d.say(look, "UDP buffers", fmt.Sprintf("sysctl -w net.core.%s=%d", name, h3.WantedBuffer),
				"net.core.%s is %d: under load packets of HTTP/3 are lost and sent again", name, n)
		}
	}
}

const (
	filesOfItsOwn = 512  // of the store, the journal, lists, logs and listeners
	busyConns     = 4096 // of visitors at once, at a busy site
)

// filesFor says whether a process that may open so many files can serve the connections that come: each takes two, one
// to the visitor and one to the service. What the configuration allows is the most that can be needed; what a busy site
// has is the requested limit.
func filesFor(have uint64, maxConns int) finding {
	need := func(conns uint64) uint64 { return 2*conns + filesOfItsOwn }
	enough, busy, limit := (max(have, filesOfItsOwn)-filesOfItsOwn)/2, uint64(busyConns), "http.max_conns sets no limit"
	if most := uint64(max(maxConns, 0)); most > 0 {
		busy, limit = min(busy, most), fmt.Sprintf("the %d of http.max_conns would need %d", most, need(most))
	}
	f := finding{State: healthy, What: "open files", Says: fmt.Sprintf("%d may be open at once, enough for %d "+
		"connections of visitors; %s", have, enough, limit)}
	if enough < busy {
		f.State, f.Do = look, fmt.Sprintf("LimitNOFILE=%d in the unit, or ulimit -n: for %d connections, as a busy "+
			"site has them", need(busy), busy)
	}
	return f
}

// kernelLimit reads a limit of net.core; ok is false where there is none.
func kernelLimit(name string) (n int, ok bool) {
	text, err := os.ReadFile("/proc/sys/net/core/" + name) // Linux
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}

// aCrawler is an address of Googlebot, whose name says so.
const aCrawler = "66.249.66.1"

// names looks whether the resolver answers, where the gateway needs it.
func (d *doctor) names(ctx context.Context) {
	if !d.cfg.Lists.Crawlers.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := net.DefaultResolver.LookupAddr(ctx, aCrawler); err != nil {
		d.say(look, "DNS", "name a resolver in /etc/resolv.conf; or lists.crawlers.enabled: false, if no search "+
			"engine is to come",
			"the name of a crawler's address can't be looked up (%v): crawlers will not be recognised", err)
		return
	}
	d.say(healthy, "DNS", "", "names of addresses can be looked up")
}

// stores asks the servers that gateways share how they are set up. One of this machine's own is on its disk.
func (d *doctor) stores(ctx context.Context) {
	servers, err := gateway.StoreServers(ctx, &d.cfg.Store)
	if err != nil {
		d.say(bad, "store", "start it, or mend store.url and store.redis", "%v", err)
	}
	for i := range servers {
		d.all = append(d.all, setUp(&servers[i]))
	}
}

// setUp checks whether a server persists its data.
func setUp(s *gateway.StoreServer) finding {
	f := finding{State: look, What: "store"}
	switch {
	case s.Memory > 0 && s.Policy != "noeviction":
		f.Do = "maxmemory-policy noeviction"
		f.Says = fmt.Sprintf("%s forgets bans and spent answers when its memory is short (maxmemory-policy %s)",
			s.Address, s.Policy)
	case !s.Logs:
		f.Do = "appendonly yes, if bans and spent answers are to outlive a restart"
		f.Says = fmt.Sprintf("%s forgets what it was told since its last snapshot when it is started again "+
			"(appendonly no)", s.Address)
	default:
		f.State, f.Says = healthy, fmt.Sprintf("%s answers, version %s, and keeps what it is told", s.Address,
			s.Version)
	}
	return f
}

// services calls every address of the services, and compares its clock with that of the machine.
func (d *doctor) services(ctx context.Context) {
	calls := http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       patience,
	}
	asked := map[string]bool{}
	for i := range d.cfg.Resolved {
		name := d.cfg.Resolved[i].Name
		for _, address := range d.cfg.Resolved[i].Upstream.URLs {
			u, err := url.Parse(address)
			if err != nil || asked[address] {
				continue // the configuration was checked
			}
			asked[address] = true
			if u.Scheme == "https" { // upstream.tls says how to check its certificate; an open port is enough
				host := u.Host
				if u.Port() == "" {
					host = net.JoinHostPort(u.Hostname(), "443")
				}
				c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", host)
				if err == nil {
					c.Close()
				}
				d.answers(name, address, "takes connections", err)
				continue
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
			if err != nil {
				continue
			}
			req.Header.Set("User-Agent", "antirobot doctor")
			res, err := calls.Do(req)
			if err != nil {
				d.answers(name, address, "", err)
				continue
			}
			res.Body.Close()
			d.answers(name, address, "answers "+res.Status, nil)
			if theirs, err := http.ParseTime(res.Header.Get("Date")); err == nil {
				d.clock(address, time.Since(theirs))
			}
		}
	}
}

// patience bounds a call to the surroundings.
const patience = 5 * time.Second

func (d *doctor) answers(name, address, how string, err error) {
	if err != nil {
		d.say(bad, "service", "start it, or mend upstream.urls", "%s at %s does not answer: %v", name, address, err)
		return
	}
	d.say(healthy, "service", "", "%s at %s %s", name, address, how)
}

// clock compares the machine's clock with a service's; a difference says that one of them is wrong.
func (d *doctor) clock(whose string, off time.Duration) {
	if off.Abs() > time.Minute {
		d.say(look, "clock", "let a time service keep both right: bans and passes end by it",
			"this machine and %s differ by %s", whose, off.Round(time.Second))
	}
}

// gateway asks the gateway that runs, if one does.
func (d *doctor) gateway(ctx context.Context) {
	if d.cfg.Admin.Listen == "" {
		d.say(look, "gateway", "", "it has no private listener (admin.listen), so it cannot be asked")
		return
	}
	if !d.cfg.Admin.Loopback() {
		state, do := look, "let a firewall guard it; see docs/threat-model.md"
		if d.cfg.Admin.TLSCert == "" {
			state, do = bad, "admin.listen: 127.0.0.1:8079, or tls_cert and tls_key"
		}
		d.say(state, "private port", do, "admin.listen %s can be reached from other machines", d.cfg.Admin.Listen)
	}
	if _, err := probe(ctx, d.cfg, "/readyz"); err != nil {
		d.say(look, "gateway", "start it, then run this again", "%v", err)
		return
	}
	d.say(healthy, "gateway", "", "it runs and is ready")
	d.stream()
	var is watched
	if err := d.api.get(d.cmd, "/api/alarms", &is); err != nil {
		d.say(look, "gateway", "run this as the gateway's user", "%v", err)
	}
	for _, a := range is.Items {
		d.say(look, "alarm", a.Action, "%s", a.Text)
	}
	for _, h := range is.Webhooks {
		if h.Error != "" {
			d.say(bad, "webhook", "mend alarms.webhooks, then `antirobot alarms test`", "%s", h.Error)
		}
	}
	d.visitors()
	d.arrivals()
}

// enoughSent is how many visitors must have been sent to the captcha page before it says something that none came
// there.
const enoughSent = 50

// arrivals looks whether visitors come where they are sent: not if a proxy before the gateway takes a prefix off their
// paths, or changes Host, and does not say so.
func (d *doctor) arrivals() {
	text, err := d.api.ask(d.cmd, http.MethodGet, "/metrics", nil)
	if err != nil {
		return
	}
	var sent, came float64
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case `antirobot_captcha_shown_total{form="redirect"}`:
			sent = n
		case `antirobot_captcha_shown_total{form="page"}`:
			came = n
		}
	}
	if came > 0 {
		d.say(healthy, "captcha page", "", "visitors come to it")
		return
	}
	if sent >= enoughSent {
		d.say(look, "captcha page", "let it send X-Forwarded-Prefix and X-Forwarded-Host, and name it in "+
			"identity.trusted_proxies; or let it pass Host and paths as they are",
			"none of %.0f visitors who were sent to it came there: does a proxy before the gateway take a prefix "+
				"off, or change Host? Robots alone come to none either", sent)
	}
}

// stream asks how the way is between gateways and processors.
func (d *doctor) stream() {
	var s gatewayState
	if d.api.get(d.cmd, "/api/status", &s) != nil || s.Stream == nil {
		return
	}
	state, do := healthy, ""
	if !s.Stream.Healthy {
		state, do = bad, "look at the processors and at store.url, which carries the events"
	}
	d.say(state, "stream", do, "%s", s.Stream)
}

// Visitors have one address if so many entries of a day's journal, and this share of them, are of one.
const (
	enoughEntries = 50
	oneShare      = 0.9
)

func (d *doctor) visitors() {
	var top struct{ Items []journal.Count }
	query := url.Values{"by": {"ip"}, "q": {"kind:request since:1d"}, "limit": {"50"}}
	if d.api.get(d.cmd, "/api/journal/top?"+query.Encode(), &top) != nil || len(top.Items) == 0 {
		return
	}
	all := 0.0
	for _, c := range top.Items {
		all += float64(c.Entries)
	}
	first := top.Items[0]
	if all < enoughEntries {
		return
	}
	if float64(first.Entries) < oneShare*all {
		d.say(healthy, "visitors", "", "they have addresses of their own")
		return
	}
	d.say(bad, "visitors",
		"name the balancer in identity.trusted_proxies, so that its X-Forwarded-For is read"+d.trusted(first.Name),
		"all your visitors have one address, %s: is a balancer before you?", first.Name)
}

// trusted says if an address is among the trusted proxies: then these do not say whose request it is.
func (d *doctor) trusted(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, p := range d.cfg.Identity.TrustedProxies {
		if n, err := request.ParseNetwork(p); err == nil && n.Contains(a) {
			return "; it is there already, so let it send the field identity.client_address_header"
		}
	}
	return ""
}

// signIn reads the metadata of the console's OpenID Connect provider.
func (d *doctor) signIn(ctx context.Context) {
	c := &d.cfg.Admin.OIDC
	if c.Issuer == "" {
		return
	}
	const what = "sign-in"
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, err := console.Discover(ctx, c.Issuer)
	switch {
	case err != nil:
		says, _, _ := strings.Cut(err.Error(), "\n") // a page may be quoted
		d.say(bad, what, "mend admin.oidc.issuer, or the provider; tokens work meanwhile",
			"nobody can sign in at the provider: %s", says)
	case name != c.Issuer:
		d.say(bad, what, fmt.Sprintf("write admin.oidc.issuer: %s", name),
			"nobody can sign in: the provider at %s calls itself %s", c.Issuer, name)
	default:
		d.say(healthy, what, "", "the provider %s answers", c.Issuer)
	}
}
