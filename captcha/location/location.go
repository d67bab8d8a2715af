// Package location reads URLs of clients and operators strictly, so that no two readers disagree about the host.
package location

import (
	"fmt"
	"net/url"
	"strings"

	"antirobot/request"
)

// Longest bounds a URL that is read, in bytes.
const Longest = 8 << 10

// URL is a URL that can be sent to a browser: absolute, with the authority spelled as browsers read it.
type URL struct {
	Scheme, Host, Port string // the port never empty
	Text               string
}

// Origin returns scheme, host and, unless it is the scheme's own, port, as an Origin field has them.
func (u *URL) Origin() string {
	if u.Port == defaultPort(u.Scheme) {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + ":" + u.Port
}

// Parse reads an absolute http or https URL strictly: no user information, no backslash before the query, no control
// character, a host of plain letters, digits, dots and hyphens (international names only in their ASCII form). Path,
// query and fragment stay as they are.
func Parse(raw string) (URL, bool) {
	if len(raw) > Longest {
		return URL{}, false
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = string(request.AppendLower(nil, scheme))
	if !ok || scheme != "http" && scheme != "https" {
		return URL{}, false
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#\\"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	host, port, ok := splitAuthority(authority)
	if !ok {
		return URL{}, false
	}
	if tail == "" || tail[0] != '/' {
		tail = "/" + tail
	}
	path := tail
	if i := strings.IndexAny(tail, "?#"); i >= 0 {
		path = tail[:i]
	}
	if strings.IndexByte(path, '\\') >= 0 || strings.ContainsFunc(tail, isControl) {
		return URL{}, false
	}
	text := scheme + "://" + host
	if port != "" && port != defaultPort(scheme) {
		text += ":" + port
	}
	if port == "" {
		port = defaultPort(scheme)
	}
	return URL{Scheme: scheme, Host: host, Port: port, Text: text + Escape(tail)}, true
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

// splitAuthority separates host and port, in lower case. It refuses anything that parsers may read differently: an
// empty port, leading zeros in it, empty labels, hyphens at either end of a label.
func splitAuthority(a string) (host, port string, ok bool) {
	h, p, ok := request.SplitHost(request.AppendLower(nil, a))
	host, port = string(h), string(p)
	if strings.HasSuffix(a, ":") || strings.HasPrefix(port, "0") {
		return "", "", false
	}
	return host, port, ok && request.PlainHost(host)
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// Escape percent-encodes the bytes that a Location forbids, and nothing else: the URL comes back whole.
func Escape(s string) string {
	const upper = "0123456789ABCDEF"
	bad := func(i int) bool {
		c := s[i]
		return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>'
	}
	for i := range len(s) {
		if !bad(i) {
			continue
		}
		b := append(make([]byte, 0, len(s)+32), s[:i]...)
		for ; i < len(s); i++ {
			if bad(i) {
				b = append(b, '%', upper[s[i]>>4], upper[s[i]&15])
			} else {
				b = append(b, s[i])
			}
		}
		return string(b)
	}
	return s
}

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
