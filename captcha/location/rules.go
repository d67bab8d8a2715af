package location

import (
	"fmt"
	"net/url"
	"strings"

	"antirobot/request"
)

// Host is a host that a URL may name: example.org, example.org:8443, *.example.org.
type Host struct {
	host string // lower-case; with wild, the part after "*."
	port string // empty: the scheme's default
	wild bool
}

// ParseHost reads a Host.
func ParseHost(s string) (Host, error) {
	name, wild := strings.CutPrefix(s, "*.")
	host, port, ok := splitAuthority(name)
	if !ok {
		return Host{}, fmt.Errorf("%q is not a host, host:port or *.host", s)
	}
	return Host{host, port, wild}, nil
}

// Fits reports whether a URL names the host.
func (h Host) Fits(u *URL) bool {
	if h.port != u.Port && (h.port != "" || u.Port != defaultPort(u.Scheme)) {
		return false
	}
	if h.wild {
		return strings.HasSuffix(u.Host, "."+h.host)
	}
	return u.Host == h.host
}

// Origin is an origin, or all of its subdomains: https://app.example.org, https://*.example.org.
type Origin struct {
	exact          string // scheme://host[:port], lower-case
	prefix, suffix string // with "*." in it: the parts before and after the star
}

// ParseOrigin reads an Origin.
func ParseOrigin(s string) (Origin, error) {
	s = string(request.AppendLower(nil, s))
	u, err := url.Parse(strings.Replace(s, "://*.", "://", 1))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.Path != "" || u.RawQuery != "" || u.Fragment != "" || !request.PlainHost(u.Hostname()) {
		return Origin{}, fmt.Errorf("%q is not an origin like https://app.example.org", s)
	}
	if before, after, ok := strings.Cut(s, "*"); ok {
		return Origin{prefix: before, suffix: after}, nil
	}
	return Origin{exact: s}, nil
}

// Fits reports whether the value of an Origin field, in lower case, is such an origin.
func (o Origin) Fits(origin string) bool {
	if o.exact != "" {
		return origin == o.exact
	}
	label, ok := strings.CutPrefix(origin, o.prefix)
	if !ok {
		return false
	}
	label, ok = strings.CutSuffix(label, o.suffix)
	return ok && request.PlainHost(label)
}
