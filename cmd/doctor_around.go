package cmd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/config"
	"antirobot/gateway"
	"antirobot/journal"
	"antirobot/proxy/h3"
	"antirobot/request"
)

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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
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

// services asks every address of the services, and compares its clock with that of the machine.
func (d *doctor) services(ctx context.Context) {
	client := http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       5 * time.Second,
	}
	asked := map[string]bool{}
	for i := range d.cfg.Resolved {
		s := &d.cfg.Resolved[i]
		for _, address := range s.Upstream.URLs {
			if asked[address] {
				continue
			}
			asked[address] = true
			u, err := url.Parse(address)
			// its certificate is checked by upstream.tls; that the port answers is enough
			if err != nil || u.Scheme == "https" {
				d.dial(ctx, s.Name, address)
				continue
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
			if err != nil {
				continue // the configuration was checked
			}
			req.Header.Set("User-Agent", "antirobot doctor")
			res, err := client.Do(req)
			if err != nil {
				d.say(bad, "service", "start it, or mend upstream.urls", "%s at %s does not answer: %v", s.Name,
					address, err)
				continue
			}
			res.Body.Close()
			d.say(healthy, "service", "", "%s at %s answers %s", s.Name, address, res.Status)
			if theirs, err := http.ParseTime(res.Header.Get("Date")); err == nil {
				d.clock(address, time.Since(theirs))
			}
		}
	}
}

func (d *doctor) dial(ctx context.Context, name, address string) {
	u, err := url.Parse(address)
	if err != nil {
		return // the configuration was checked
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", host)
	if err != nil {
		d.say(bad, "service", "start it, or mend upstream.urls", "%s at %s does not answer: %v", name, address, err)
		return
	}
	c.Close()
	d.say(healthy, "service", "", "%s at %s takes connections", name, address)
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
		d.say(look, "gateway", "", "it has no private listener (admin.listen): nobody can ask it")
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
	if answer, err := d.api.get(d.cmd, "/api/alarms"); err != nil {
		d.say(look, "gateway", "run this as the gateway's user", "%v", err)
	} else if readAnswer(answer, &is) == nil {
		for _, a := range is.Items {
			d.say(look, "alarm", a.Action, "%s", a.Text)
		}
		for _, h := range is.Webhooks {
			if h.Error != "" {
				d.say(bad, "webhook", "mend alarms.webhooks, then `antirobot alarms test`", "%s", h.Error)
			}
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
	text, err := d.api.get(d.cmd, "/metrics")
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
	answer, err := d.api.get(d.cmd, "/api/status")
	if err != nil || readAnswer(answer, &s) != nil || s.Stream == nil {
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
	answer, err := d.api.get(d.cmd, "/api/journal/top?"+url.Values{
		"by": {"ip"}, "q": {"kind:request since:1d"},
		"limit": {"50"},
	}.Encode())
	if err != nil || readAnswer(answer, &top) != nil || len(top.Items) == 0 {
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
