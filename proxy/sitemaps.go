package proxy

import (
	"bytes"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// A service's robots.txt names its sitemaps (sitemaps.org). The gateway reads it while relaying it, so that robots can
// fetch the sitemaps too.

const (
	maxRobots      = 64 << 10    // bytes
	maxSitemaps    = 64          // of one robots.txt
	maxSitemapURL  = 2048        // bytes
	maxRobotsHosts = 16          // per service
	robotsEvery    = time.Minute // per host
)

// sitemaps are the sitemaps that the robots.txt files of a service's hosts name. Safe for concurrent use; the zero
// value is ready.
type sitemaps struct {
	named atomic.Pointer[sitemapSet] // nil: none are known

	mu    sync.Mutex
	hosts []robotsOf
}

type robotsOf struct {
	host string
	at   time.Time
	urls []sitemapURL
}

// sitemapURL has the host in lower case, and path and query as clients send them.
type sitemapURL struct{ host, target string }

// sitemapSet holds targets by host. Immutable.
type sitemapSet map[string]map[string]struct{}

// isNamedSitemap reports whether v requests a sitemap that a robots.txt names, with its query. It does not allocate.
func (s *Service) isNamedSitemap(v *request.View) bool {
	if s.metrics == nil {
		return false
	}
	named := s.metrics.sitemaps.named.Load()
	if named == nil {
		return false
	}
	_, ok := (*named)[string(v.Host)][string(v.Target)]
	return ok
}

func (m *sitemaps) due(host []byte, at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.hosts {
		if m.hosts[i].host == string(host) {
			return at.Sub(m.hosts[i].at) >= robotsEvery
		}
	}
	return true
}

// note replaces the sitemaps of a host, or those of the host whose robots.txt is oldest.
func (m *sitemaps) note(host string, at time.Time, urls []sitemapURL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place := -1
	for i := range m.hosts {
		if m.hosts[i].host == host {
			place = i
			break
		}
		if len(m.hosts) == maxRobotsHosts && (place < 0 || m.hosts[i].at.Before(m.hosts[place].at)) {
			place = i
		}
	}
	if place < 0 {
		m.hosts, place = append(m.hosts, robotsOf{}), len(m.hosts)
	}
	m.hosts[place] = robotsOf{host, at, urls}
	named := sitemapSet{}
	for i := range m.hosts {
		for _, u := range m.hosts[i].urls {
			if named[u.host] == nil {
				named[u.host] = map[string]struct{}{}
			}
			named[u.host][u.target] = struct{}{}
		}
	}
	m.named.Store(&named)
}

type robotsReader struct {
	text bool // plain text with status 200
	body []byte
}

func (r *robotsReader) Head(status int, fields []request.Field) ([]request.Field, bool) {
	r.text = status == 200
	for i := range fields {
		switch f := &fields[i]; {
		case request.EqualFold(f.Name, "Content-Encoding"):
			r.text = r.text && request.EqualFold(f.Value, "identity")
		case request.EqualFold(f.Name, "Content-Type"):
			r.text = r.text && request.EqualFold(mediaType(f.Value), "text/plain")
		}
	}
	return fields, false
}

func (*robotsReader) Body(io.Writer, io.Reader) error { return nil }

func (*robotsReader) Flush() error { return nil }

func (r *robotsReader) copy(piece []byte) {
	if r.text {
		r.body = append(r.body, piece[:min(len(piece), maxRobots-len(r.body))]...)
	}
}

var robotsPath = []byte("/robots.txt")

// readingRobots returns a reader for robots.txt; nil for other requests, and shortly after the last reading.
func (j *relay) readingRobots(o *h1.ForwardOptions) *robotsReader {
	if !bytes.Equal(j.view.Path, robotsPath) || string(j.view.Method) != "GET" ||
		!j.svc.metrics.sitemaps.due(j.view.Host, j.view.At) {
		return nil
	}
	r := &robotsReader{}
	o.Rewrite, o.Copy = r, r.copy
	return r
}

func (j *relay) readRobots(r *robotsReader) {
	if !r.text {
		return
	}
	host := string(j.view.Host)
	urls := sitemapsIn(r.body, host, func(u sitemapURL) bool {
		path, _, _ := strings.Cut(u.target, "?")
		s := j.snap.Router.find([]byte(u.host), []byte(path), false)
		return s != nil && s.Name == j.svc.Name
	})
	j.svc.metrics.sitemaps.note(host, j.view.At, urls)
}

// sitemapsIn returns the sitemaps of a robots.txt that are ours. A home page is none.
func sitemapsIn(text []byte, host string, ours func(sitemapURL) bool) (urls []sitemapURL) {
	if len(text) == maxRobots { // the last line may be incomplete
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for len(text) > 0 && len(urls) < maxSitemaps {
		line := text
		if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		line, _, _ = bytes.Cut(line, []byte("#"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !request.EqualFold(bytes.TrimSpace(name), "Sitemap") {
			continue
		}
		if u, ok := sitemapAt(bytes.TrimSpace(value), host); ok && ours(u) {
			urls = append(urls, u)
		}
	}
	return urls
}

// sitemapAt parses the URL of a sitemap; without a host it is on the robots.txt's.
func sitemapAt(value []byte, host string) (sitemapURL, bool) {
	if len(value) > maxSitemapURL {
		return sitemapURL{}, false
	}
	u, err := url.Parse(string(value))
	if err != nil || u.Opaque != "" || u.User != nil || u.Host == "" && u.Scheme != "" ||
		u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		return sitemapURL{}, false
	}
	if u.Host != "" {
		host = strings.ToLower(u.Hostname())
	}
	target := u.EscapedPath()
	if len(target) < 2 || target[0] != '/' {
		return sitemapURL{}, false
	}
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return sitemapURL{host, target}, true
}
