package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"antirobot/request"
)

//go:embed testdata/browsers.txt
var browsersText string

// family is a browser's engine, which determines the order of header fields.
type family uint8

const (
	chromium family = iota
	gecko
	webkit
	program // not a browser: the fields are in the order given
)

// browser is a header set. The fields of a navigation are those of a capture; the changes that a browser makes for the
// parts of a page are derived from them.
type browser struct {
	name   string
	family family
	mobile bool
	fields []request.Field // of a navigation, with names as in HTTP/1.1
}

// browsers returns the captures, and the same browsers on other systems.
func browsers() ([]browser, error) {
	var list []browser
	for section := range strings.SplitSeq(browsersText, "\n[") {
		name, body, ok := strings.Cut(section, "]\n")
		if !ok {
			continue
		}
		name = strings.TrimPrefix(name, "[")
		b := browser{name: name, mobile: strings.Contains(name, "ios") || strings.Contains(name, "android")}
		switch {
		case strings.HasPrefix(name, "chrome"):
			b.family = chromium
		case strings.HasPrefix(name, "safari"):
			b.family = webkit
		default:
			b.family = gecko
		}
		for line := range strings.SplitSeq(body, "\n") {
			n, value, ok := strings.Cut(line, ": ")
			if !ok || strings.HasPrefix(line, "#") || n == "te" || n == "priority" && b.family != gecko {
				continue // HTTP/2 only
			}
			b.fields = append(b.fields, request.Field{Name: []byte(http1Name(n)), Value: []byte(value)})
		}
		if len(b.fields) < 5 {
			return nil, fmt.Errorf("browsers: %s has %d fields", name, len(b.fields))
		}
		list = append(list, b)
		if b.family != webkit && !b.mobile && !strings.HasPrefix(name, "tor") {
			list = append(list, b.onWindows())
		}
	}
	return list, nil
}

// onWindows returns the same browser on the most common system.
func (b *browser) onWindows() browser {
	w := *b
	w.name = strings.Replace(b.name, "-mac", "-windows", 1)
	w.fields = nil
	for _, f := range b.fields {
		value := string(f.Value)
		value = strings.Replace(value, "Macintosh; Intel Mac OS X 10_15_7", "Windows NT 10.0; Win64; x64", 1)
		value = strings.Replace(value, "Macintosh; Intel Mac OS X 10.15", "Windows NT 10.0; Win64; x64", 1)
		value = strings.Replace(value, `"macOS"`, `"Windows"`, 1)
		w.fields = append(w.fields, request.Field{Name: f.Name, Value: []byte(value)})
	}
	return w
}

// http1Name writes a name as browsers do over HTTP/1.1: client hints stay in lower case.
func http1Name(n string) string {
	if strings.HasPrefix(n, "sec-ch-") {
		return n
	}
	b := []byte(n)
	for i := range b {
		if (i == 0 || b[i-1] == '-') && 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return string(b)
}

func (b *browser) value(name string) []byte {
	for i := range b.fields {
		if request.EqualFold(b.fields[i].Name, name) {
			return b.fields[i].Value
		}
	}
	return nil
}

var (
	hostName      = []byte("Host")
	keepAliveName = []byte("Connection")
	keepAlive     = []byte("keep-alive")
	refererName   = []byte("Referer")
	cookieName    = []byte("Cookie")
	agentName     = []byte("User-Agent")
	acceptName    = []byte("Accept")
	languageName  = []byte("Accept-Language")
	encodingName  = []byte("Accept-Encoding")
	pragmaName    = []byte("Pragma")
	cacheName     = []byte("Cache-Control")
	noCache       = []byte("no-cache")
	siteName      = []byte("Sec-Fetch-Site")
	modeName      = []byte("Sec-Fetch-Mode")
	destName      = []byte("Sec-Fetch-Dest")
	none          = []byte("none")
	sameOrigin    = []byte("same-origin")
	crossSite     = []byte("cross-site")
	methodGet     = []byte("GET")
	methodPost    = []byte("POST")
	noCORS        = []byte("no-cors")
	cors          = []byte("cors")
	empty         = []byte("empty")
	anything      = []byte("*/*")
	hintName      = []byte("sec-ch-ua")
	hintMobile    = []byte("sec-ch-ua-mobile")
	hintPlatform  = []byte("sec-ch-ua-platform")
)

// destOf is what a browser says a part of a page is.
var destOf = [...]struct{ dest, mode, accept []byte }{
	destStyle:  {[]byte("style"), noCORS, []byte("text/css,*/*;q=0.1")},
	destScript: {[]byte("script"), noCORS, anything},
	destImage:  {[]byte("image"), noCORS, []byte("image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8")},
	destFont:   {[]byte("font"), cors, anything},
	destFetch:  {empty, cors, anything},
	destBeacon: {empty, noCORS, anything},
}

// fill makes v the request that the client would send.
func (c *client) fill(v *request.View, p *planned, host string) {
	if p.by != nil {
		other, q := client{browser: *p.by, address: fixed(p.at), at: c.at}, *p
		q.by = nil
		other.fill(v, &q, host)
		return
	}
	fields := v.Fields[:0]
	if c.noReferer { // Sec-Fetch-Site still says where it comes from
		p.from, p.ref = p.ref, ""
	}
	method := methodGet
	if p.post {
		method = methodPost
	}
	peer := c.address(c)
	if p.scan {
		peer = scannerAddr(c)
	}
	*v = request.View{
		At: c.at, Method: method, Host: []byte(host), Target: []byte(p.path), Peer: peer, TLS: true,
	}
	v.HostPort, v.Path = v.Host, v.Target
	for i, b := range v.Target {
		if b == '?' {
			v.Path, v.Query = v.Target[:i], v.Target[i+1:]
			break
		}
	}
	fields = append(fields, request.Field{Name: hostName, Value: v.HostPort})
	switch {
	case c.family == program:
		fields = append(fields, c.fields...)
	case p.dest == destPage || p.dest == destCaptcha:
		fields = c.navigation(fields, p, host)
	default:
		fields = c.part(fields, p)
	}
	if c.family == program && c.kind == Odd && p.ref != "" {
		fields = append(fields, request.Field{Name: refererName, Value: []byte(p.ref)})
	}
	if cookie := c.cookie(); len(cookie) > 0 && !p.scan {
		fields = append(fields, request.Field{Name: cookieName, Value: cookie})
	}
	v.Fields = fields
}

func (c *client) cookie() []byte {
	all := [...]string{c.session, c.iCookie, c.probe, c.pass}
	list := all[:]
	if !c.cookies {
		list = all[3:]
	}
	n := 0
	for _, s := range list {
		n += len(s) + 2
	}
	b := make([]byte, 0, n)
	for _, s := range list {
		switch {
		case s == "":
			continue
		case len(b) > 0:
			b = append(b, "; "...)
		}
		b = append(b, s...)
	}
	return b
}

// navigation is the capture with the page that the client comes from.
func (c *client) navigation(fields []request.Field, p *planned, host string) []request.Field {
	if c.family == chromium {
		fields = append(fields, request.Field{Name: keepAliveName, Value: keepAlive})
	}
	if c.uncached { // Firefox has these two at the end
		fields = append(fields, request.Field{Name: pragmaName, Value: noCache}, request.Field{Name: cacheName, Value: noCache})
	}
	for _, f := range c.fields {
		switch string(f.Name) {
		case "Sec-Fetch-Site":
			f.Value = siteOf(cmp.Or(p.ref, p.from), host)
		case "Sec-Fetch-User":
			if p.dest == destCaptcha || c.scripted && strings.HasPrefix(cmp.Or(p.ref, p.from), "https://"+host+"/") {
				continue
			}
		case "Accept-Language":
			if c.lang != nil {
				f.Value = c.lang
			}
		case "Accept-Encoding":
			if p.ref != "" && c.family != gecko {
				fields = append(fields, request.Field{Name: refererName, Value: []byte(p.ref)})
			}
		}
		fields = append(fields, f)
		if string(f.Name) == "Accept-Encoding" && c.family == gecko {
			if p.ref != "" {
				fields = append(fields, request.Field{Name: refererName, Value: []byte(p.ref)})
			}
			fields = append(fields, request.Field{Name: keepAliveName, Value: keepAlive})
		}
	}
	if c.family == webkit {
		fields = append(fields, request.Field{Name: keepAliveName, Value: keepAlive})
	}
	return fields
}

// part is what the browser sends for a part of a page, in its engine's order.
func (c *client) part(fields []request.Field, p *planned) []request.Field {
	d := &destOf[p.dest]
	add := func(name, value []byte) {
		if value != nil {
			fields = append(fields, request.Field{Name: name, Value: value})
		}
	}
	lang := c.lang
	if lang == nil {
		lang = c.value("Accept-Language")
	}
	var ref []byte
	if p.ref != "" {
		ref = []byte(p.ref)
	}
	if c.bare {
		return c.barePart(fields, d.accept, lang, ref)
	}
	dst, mode, accept := d.dest, d.mode, d.accept
	switch c.family {
	case chromium:
		add(keepAliveName, keepAlive)
		add(hintPlatform, c.value("sec-ch-ua-platform"))
		add(agentName, c.value("User-Agent"))
		add(hintName, c.value("sec-ch-ua"))
		add(hintMobile, c.value("sec-ch-ua-mobile"))
		add(acceptName, accept)
		add(siteName, sameOrigin)
		add(modeName, mode)
		add(destName, dst)
		add(refererName, ref)
		add(encodingName, c.value("Accept-Encoding"))
		add(languageName, lang)
	case gecko:
		add(agentName, c.value("User-Agent"))
		add(acceptName, accept)
		add(languageName, lang)
		add(encodingName, c.value("Accept-Encoding"))
		add(refererName, ref)
		add(keepAliveName, keepAlive)
		add(destName, dst)
		add(modeName, mode)
		add(siteName, sameOrigin)
	default:
		add(destName, dst)
		add(agentName, c.value("User-Agent"))
		add(acceptName, accept)
		add(refererName, ref)
		add(siteName, sameOrigin)
		add(modeName, mode)
		add(languageName, lang)
		add(encodingName, c.value("Accept-Encoding"))
		add(keepAliveName, keepAlive)
	}
	return fields
}

// barePart is what a browser without Sec-Fetch and hints sends for a part of a page.
func (c *client) barePart(fields []request.Field, accept, lang, ref []byte) []request.Field {
	for _, f := range [...]request.Field{
		{Name: agentName, Value: c.value("User-Agent")},
		{Name: acceptName, Value: accept},
		{Name: languageName, Value: lang},
		{Name: encodingName, Value: c.value("Accept-Encoding")},
		{Name: refererName, Value: ref},
		{Name: keepAliveName, Value: keepAlive},
		{Name: []byte("Via"), Value: c.value("Via")},
	} {
		if f.Value != nil {
			fields = append(fields, f)
		}
	}
	return fields
}

// siteOf is what Sec-Fetch-Site says about a navigation.
func siteOf(ref, host string) []byte {
	switch {
	case ref == "":
		return none
	case strings.HasPrefix(ref, "https://"+host+"/"):
		return sameOrigin
	default:
		return crossSite
	}
}

var closes = []byte("close")

// throughNginx makes v what nginx would forward: over HTTP/1.0, its own Host and Connection first, the others as HTTP/2
// has them, in lower case. The client's address stays, as if nginx were trusted to report it.
func (w *world) throughNginx(v *request.View) {
	v.HTTP10, v.TLS = true, false
	fields := append(w.fields[:0], v.Fields[0], request.Field{Name: keepAliveName, Value: closes})
	for _, f := range v.Fields[1:] {
		if string(f.Name) != "Connection" {
			fields = append(fields, request.Field{Name: w.lower(f.Name), Value: f.Value})
		}
	}
	v.Fields, w.fields = fields, v.Fields
}

// lower returns a name of a field in lower case.
func (w *world) lower(name []byte) []byte {
	if b, ok := w.small[string(name)]; ok {
		return b
	}
	if w.small == nil {
		w.small = map[string][]byte{}
	}
	b := bytes.ToLower(name)
	w.small[string(name)] = b
	return b
}
