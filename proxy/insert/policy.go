package insert

import (
	"crypto/rand"
	"slices"
	"strings"

	"antirobot/request"
)

type site struct{ scheme, host, path string }

// isPolicy also matches report-only policies, whose reports would be full of the script.
func isPolicy(name []byte) bool {
	return request.EqualFold(name, "Content-Security-Policy") ||
		request.EqualFold(name, "Content-Security-Policy-Report-Only")
}

// policySet is the policies of a page (CSP3). The zero value permits everything.
type policySet struct {
	fields []field
	nonce  string // for the tag; empty: none
	words  int    // in sum
}

// Bounds: longer policies permit nothing, and few nonces are tried, since each is looked up in all policies.
const (
	maxWords  = 1000
	maxNonces = 8
)

type field struct {
	list    []policy
	changed bool
}

type policy []directive

type directive struct {
	name    string // lower case
	sources []string
}

func (p *policySet) reset() {
	clear(p.fields)
	p.fields, p.nonce, p.words = p.fields[:0], "", 0
}

func (p *policySet) add(value []byte) {
	var f field
	for text := range strings.SplitSeq(string(value), ",") {
		var one policy
		for d := range strings.SplitSeq(text, ";") {
			words := strings.Fields(d)
			if p.words += len(words); len(words) == 0 || p.words > maxWords {
				continue
			}
			name := strings.ToLower(words[0])
			if one.find(name) == nil { // the first counts
				one = append(one, directive{name, words[1:]})
			}
		}
		if len(one) > 0 {
			f.list = append(f.list, one)
		}
	}
	p.fields = append(p.fields, f)
}

func (p *policySet) permitsToo(content string, s site) bool {
	p.add([]byte(content))
	return p.permits(s, false)
}

// permits reports whether all policies permit the script and its requests, and finds the nonce. With extend they are
// changed if possible.
func (p *policySet) permits(s site, extend bool) bool {
	if p.words > maxWords {
		return false
	}
	for _, nonce := range append([]string{p.nonce, ""}, p.nonces()...) {
		if p.all(func(one policy) bool { return one.permits(s, nonce) }) {
			p.nonce = nonce
			return true
		}
	}
	return extend && p.extend(s)
}

func (p *policySet) all(f func(policy) bool) bool {
	for i := range p.fields {
		for _, one := range p.fields[i].list {
			if !f(one) {
				return false
			}
		}
	}
	return true
}

func (p *policySet) nonces() (found []string) {
	p.all(func(one policy) bool {
		if d := one.scripts(); d != nil {
			for _, source := range d.sources {
				if n, ok := nonceOf(source); ok && !slices.Contains(found, n) && len(found) < maxNonces {
					found = append(found, n)
				}
			}
		}
		return len(found) < maxNonces
	})
	return found
}

// nonceOf returns the nonce of a source; ok: it needs no quoting.
func nonceOf(source string) (nonce string, ok bool) {
	const prefix = "'nonce-"
	if len(source) <= len(prefix)+1 || !strings.EqualFold(source[:len(prefix)], prefix) ||
		!strings.HasSuffix(source, "'") {
		return "", false
	}
	nonce = source[len(prefix) : len(source)-1]
	bad := strings.ContainsFunc(nonce, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("+/-_=", r)
	})
	return nonce, !bad
}

func (p policy) find(names ...string) *directive {
	for _, n := range names {
		for i := range p {
			if p[i].name == n {
				return &p[i]
			}
		}
	}
	return nil
}

func (p policy) scripts() *directive     { return p.find("script-src-elem", "script-src", "default-src") }
func (p policy) connections() *directive { return p.find("connect-src", "default-src") }

// permits reports whether p permits the script, with a nonce, and its requests.
func (p policy) permits(s site, nonce string) bool {
	return p.runs() && p.scripts().loads(s, nonce) && p.connections().sends(s)
}

// runs reports whether a sandboxed page runs scripts with its origin.
func (p policy) runs() bool {
	d := p.find("sandbox")
	return d == nil || d.has("allow-scripts") && d.has("allow-same-origin")
}

func (d *directive) has(source string) bool {
	return slices.ContainsFunc(d.sources, func(s string) bool { return strings.EqualFold(s, source) })
}

func (d *directive) loads(s site, nonce string) bool {
	switch {
	case d == nil:
		return true
	case nonce != "" && slices.ContainsFunc(d.sources, func(source string) bool {
		n, ok := nonceOf(source)
		return ok &&
			n == nonce
	}):
		return true
	case d.has("'strict-dynamic'"):
		return false
	}
	return d.covers(s, s.path)
}

func (d *directive) sends(s site) bool {
	return d == nil || d.covers(s, strings.TrimSuffix(s.path, ".js"))
}

// covers reports whether the sources contain a path of the page's site.
func (d *directive) covers(s site, path string) bool {
	return slices.ContainsFunc(d.sources, func(source string) bool { return s.matches(source, path) })
}

// matches implements CSP3, 6.7.2.8, for the page's site.
func (s site) matches(source, path string) bool {
	switch source = strings.ToLower(source); {
	case source == "'self'", source == "*":
		return true
	case strings.HasPrefix(source, "'"):
		return false
	case source == "http:":
		return true // an upgrade matches
	case source == "https:":
		return s.scheme == "https"
	}
	scheme, rest, given := strings.Cut(source, "://")
	if !given {
		scheme, rest = s.scheme, source
	}
	if scheme != s.scheme && (scheme != "http" || s.scheme != "https") {
		return false
	}
	authority, want, hasPath := strings.Cut(rest, "/")
	if hasPath && want != "" {
		want = "/" + want
		if strings.HasSuffix(want, "/") && !strings.HasPrefix(path, want) || !strings.HasSuffix(want, "/") &&
			path != want {
			return false
		}
	}
	host, port := splitPort(authority)
	own, ownPort := splitPort(strings.ToLower(s.host))
	if suffix, wild := strings.CutPrefix(host, "*."); wild && !strings.HasSuffix(own, "."+suffix) || !wild &&
		host != own {
		return false
	}
	return port == "*" || orPort(port, scheme) == orPort(ownPort, s.scheme) || port == "80" &&
		orPort(ownPort, s.scheme) == "443"
}

func splitPort(authority string) (host, port string) {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.HasSuffix(authority, "]") {
		return authority, ""
	}
	return authority[:i], authority[i+1:]
}

func orPort(port, scheme string) string {
	switch {
	case port != "":
		return port
	case scheme == "https":
		return "443"
	}
	return "80"
}

// extend changes policies that forbid the script: they get 'self', or a nonce where 'self' is ignored.
func (p *policySet) extend(s site) bool {
	if !p.all(policy.runs) {
		return false
	}
	if known := p.nonces(); len(known) > 0 {
		p.nonce = known[0]
	} else if !p.all(func(one policy) bool { d := one.scripts(); return d == nil || !d.has("'strict-dynamic'") }) {
		p.nonce = rand.Text()
	}
	for i := range p.fields {
		f := &p.fields[i]
		for k := range f.list {
			f.changed = f.list[k].extend(s, p.nonce) || f.changed
		}
	}
	return true
}

func (p *policy) extend(s site, nonce string) (changed bool) {
	if d := p.scripts(); !d.loads(s, nonce) {
		source := "'self'"
		if d.has("'strict-dynamic'") {
			source = "'nonce-" + nonce + "'"
		}
		p.permit("script-src-elem", d, source)
		changed = true
	}
	if d := p.connections(); !d.sends(s) {
		p.permit("connect-src", d, "'self'")
		changed = true
	}
	return changed
}

// permit gives directive name the sources of d and one more.
func (p *policy) permit(name string, d *directive, source string) {
	sources := slices.DeleteFunc(slices.Clone(d.sources), func(s string) bool { return strings.EqualFold(s, "'none'") })
	sources = append(sources, source)
	if own := p.find(name); own != nil {
		own.sources = sources
		return
	}
	*p = append(*p, directive{name, sources})
}

// rewrite puts changed policies into the fields, in the order of add.
func (p *policySet) rewrite(fields []request.Field) []request.Field {
	n := 0
	for i := range fields {
		if !isPolicy(fields[i].Name) {
			continue
		}
		if f := &p.fields[n]; f.changed {
			fields[i].Value = f.append(nil)
		}
		n++
	}
	return fields
}

func (f *field) append(dst []byte) []byte {
	for i, one := range f.list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		for k, d := range one {
			if k > 0 {
				dst = append(dst, "; "...)
			}
			dst = append(dst, d.name...)
			for _, s := range d.sources {
				dst = append(append(dst, ' '), s...)
			}
		}
	}
	return dst
}
