package cbb

import (
	"bytes"
	"regexp"
	"strings"

	"antirobot/request"
)

// pathCond is a test of a path. At most one part is set.
type pathCond struct {
	exact  []byte
	prefix []byte
	re     *regexp.Regexp
	bloom  bloom // of what each match must contain
}

func (c *pathCond) any() bool { return c.exact == nil && c.prefix == nil && c.re == nil }

func (c *pathCond) match(p *pathForm) bool {
	switch {
	case c.exact != nil:
		return bytes.Equal(p.path, c.exact)
	case c.prefix != nil:
		return bytes.HasPrefix(p.path, c.prefix)
	default:
		return p.may(&c.bloom) && c.re.Match(p.path)
	}
}

// bloom is the set of pairs of adjacent bytes in a string, ignoring case, folded into 256 bits. A string can contain
// another only if its bloom contains the other's.
type bloom [4]uint64

func (b *bloom) add(s []byte) {
	for i := 1; i < len(s); i++ {
		h := request.Lower(s[i-1])*31 + request.Lower(s[i])
		b[h>>6] |= 1 << (h & 63)
	}
}

func (b *bloom) covers(o *bloom) bool {
	return o[0]&^b[0] == 0 && o[1]&^b[1] == 0 && o[2]&^b[2] == 0 && o[3]&^b[3] == 0
}

// pathForm is a path in one form, with its bloom once that has been needed.
type pathForm struct {
	path    []byte
	bloom   bloom
	bloomed bool
}

func (p *pathForm) may(need *bloom) bool {
	if !p.bloomed {
		p.bloom = bloom{}
		p.bloom.add(p.path)
		p.bloomed = true
	}
	return p.bloom.covers(need)
}

// globRegexp translates a glob over the whole path: * is a run without slashes, ** any run, ? one byte but a slash.
// /**/ may also be a single slash: no folder matches as well as several.
func globRegexp(g string) string {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i := 0; i < len(g); i++ {
		switch {
		case strings.HasPrefix(g[i:], "/**/"): // no segment, or several
			b.WriteString(`(?:/.*)?`)
			i += len("/**") - 1
		case strings.HasPrefix(g[i:], "**"):
			b.WriteString(`.*`)
			i++
		case g[i] == '*':
			b.WriteString(`[^/]*`)
		case g[i] == '?':
			b.WriteString(`[^/]`)
		default:
			j := i
			for j++; j < len(g) && g[j] != '*' && g[j] != '?' && !strings.HasPrefix(g[j:], "/**/"); {
				j++
			}
			b.WriteString(regexp.QuoteMeta(g[i:j]))
			i = j - 1
		}
	}
	b.WriteString(`$`)
	return b.String()
}
