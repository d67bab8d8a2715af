package sim

import (
	"net/url"
	"strconv"
	"strings"
)

// Lengths of time in milliseconds.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
	day          = 24 * hour
)

// Site is one web site: where it is, what it answers, and the handles by which
// visitors and robots find their way.
type Site struct {
	Name, Host string
	TLS        bool
	Proto      string // what current browsers speak with it
	Zone       int    // minutes east of Greenwich
	Start      int64
	Days       int
	Seed       uint64

	Home     string
	Items    int // items that exist at the start
	Rate     float64
	Item     func(i int) string
	Lists    int
	List     func(k, page int) string
	Terms    []string
	Search   func(q string) string
	Suggest  func(q string) string
	Login    string
	Feed     string
	API      func(i int) string
	Quiet    bool // no search engine leads here
	Soft     bool // links change the route, not the document
	Hover    string
	H3       bool
	Worker   string // service worker script
	Keep     []string
	Preview  func(uri string) string // of a link that the pointer rests on
	Language []string
	serve    func(*Req) *Resp
}

// Req is a request.
type Req struct {
	Method, Path string
	Q            url.Values
	URL          string
	At           int64
	S            map[string]int // what the server keeps for this visitor
	Route        bool           // a change of route inside the document
	Kind         string
}

// Resp is an answer and, for a document, what a browser finds in it.
type Resp struct {
	Status   int
	Type     string
	Size     int
	Location string
	MaxAge   int64 // seconds; -1 no-store, 0 ask again
	Tag      string
	Fixed    bool // immutable
	Common   bool // part of most pages
	Think    float64
	Hold     float64 // answered only after so many seconds
	Kind     string  // of page
	Words    int
	Height   float64 // screens
	Parts    []Part
	Links    []Link
	Polls    []Poll
	Leave    []Part // sent when the page is hidden or left
}

// Part is something that a page loads.
type Part struct {
	URL, Kind, Method string
	Pos               float64 // loaded when scrolled to this screen
	After             float64 // seconds after the document
	Track             bool    // blocked by content blockers
	Script            bool    // loaded by a script
}

// Link is a way on.
type Link struct {
	URL, Kind string
	Pos, Pop  float64
}

// Poll is a request that a page repeats.
type Poll struct {
	URL, Kind, Method string
	Every, First      float64
	Hidden            bool // goes on in the background
	Track             bool
	Stream            bool // a stream or long poll that is held
	Max               int
}

// Get answers any request of the site.
func (s *Site) Get(q *Req) *Resp {
	u := q.URL
	path, raw, _ := strings.Cut(u, "?")
	q.Path = path
	q.Q, _ = url.ParseQuery(raw)
	if q.S == nil {
		q.S = map[string]int{}
	}
	p := s.serve(q)
	if p == nil {
		p = notFound(q)
	}
	if p.Status == 0 {
		p.Status = 200
	}
	if p.Think == 0 && p.MaxAge <= 0 {
		p.Think = 0.06
	}
	return p
}

func notFound(q *Req) *Resp {
	return &Resp{Status: 404, Type: html, Size: 1180 + hn(40, q.Path), Kind: "missing", Words: 30, Height: 1}
}

// Types of content.
const (
	html = "text/html; charset=UTF-8"
	js   = "application/json"
	css  = "text/css"
	jsc  = "application/javascript"
	webp = "image/webp"
	jpeg = "image/jpeg"
	png  = "image/png"
	svg  = "image/svg+xml"
	woff = "font/woff2"
	text = "text/plain"
	xml  = "text/xml"
	ico  = "image/x-icon"
)

// static is a file that may be kept for so many seconds.
func static(typ string, size int, age int64, common bool) *Resp {
	return &Resp{Type: typ, Size: size, MaxAge: age, Tag: "v1", Fixed: age >= 31536000, Common: common}
}

func data(size int) *Resp { return &Resp{Type: js, Size: size, MaxAge: -1, Think: 0.04} }

func empty() *Resp { return &Resp{Status: 204, MaxAge: -1, Think: 0.01} }

func redirect(status int, to string) *Resp {
	return &Resp{Status: status, Type: html, Size: 138, Location: to, MaxAge: -1, Think: 0.07}
}

// count is how many items exist at a time.
func (s *Site) count(at int64) int {
	return s.Items + int(s.Rate*float64(at-s.Start)/float64(hour))
}

func (s *Site) origin() string {
	if s.TLS {
		return "https://" + s.Host
	}
	return "http://" + s.Host
}

func num(x string) int {
	n, _ := strconv.Atoi(x)
	return n
}

// cut returns what follows the prefix.
func cut(path, prefix string) (string, bool) { return strings.CutPrefix(path, prefix) }

func links(kind string, pos, step float64, urls ...string) []Link {
	out := make([]Link, 0, len(urls))
	for i, u := range urls {
		out = append(out, Link{URL: u, Kind: kind, Pos: pos + step*float64(i)})
	}
	return out
}

var syllables = strings.Fields("ka ro mi ten sol var del ni pra mo lu sen tar bo ri ga vel no ste ma du rin or pel ha lo win ber sa to")

// word is a made-up word that belongs to its arguments.
func word(n int, parts ...any) string {
	var b strings.Builder
	h := hash(parts...)
	for range n {
		b.WriteString(syllables[h%uint64(len(syllables))])
		h = h/31 + h<<13
	}
	return b.String()
}
