package captcha

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strconv"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// Redirect sends a page's visitor to the captcha page: 302. Nothing is shown yet: Page reports that.
func (c *Captcha) Redirect(q *Request) Response {
	c.count.shown["redirect"].Inc()
	if q.Unread {
		return Response{Status: 302}
	}
	if q.framedElsewhere() {
		return c.asks.framed(q)
	}
	at := c.now()
	a := c.pages.own(q, 302, "", verdictCaptcha)
	c.probes.probe(q, &a, c.probes.probeOf(q))
	l := c.links.signLink(q, q.linked(), true, at)
	q.noteRetpath(&a)
	a.add("Location", q.Base+q.Service.showURL(&l))
	a.add("Referrer-Policy", "no-referrer")
	a.add("Vary", "*")
	return a
}

// Page handles the captcha page, GET /showcaptcha.
func (c *Captcha) Page(q *Request) Response {
	if m := q.method(); m != "GET" && m != "HEAD" {
		return c.pages.notAllowed(q, "GET, HEAD")
	}
	at := c.now()
	p := readParams(q)
	p.choose(q)
	l := p.link()
	since := q.passedSince(&l)
	to := c.links.follow(q, &l, nil, at)
	if since || c.links.knownByName(q, &p, &l, at) {
		return c.pages.seeOther(q, to)
	}
	if p.format != "" { // the page itself asks whether it is over
		return c.pages.own(q, 204, "", verdictCaptcha)
	}
	least := c.links.leastOf(q, &l, at)
	moves := c.asks.mayMove(q, l.reason(), least, p.step+p.stay != "")
	asked := c.ladder.ask(q, least, at)
	if wait := c.prices.exhausted(q, p.chose(asked.step), at); wait > 0 && !moves {
		return c.pages.limited(q, &p, wait, q.showPath(&l))
	}
	pr := c.probes.probeOf(q)
	lang := c.pages.language(q, &p)
	lost := c.probes.cookiesLost(q, pr, at)
	off := p.cc == "1" && l.gaveProbe() && !pr.returned && !hasCookie(q, q.Service.cookie)
	asked.move = moves
	if p.step == "" && !lost && !off && (moves || asked.step < stepDigits) {
		return c.asks.checkingPage(q, &p, &l, asked, at)
	}
	key, dynamic := c.asks.reading(q, &p, asked, l.url, at)
	page := c.asks.challenge(q, lang, key)
	if dynamic {
		asked.way = wayDynamic
		c.asks.showMoving(q, page, lang, asked, l.url, at)
	}
	if id := l.stoppedID(); id != "" {
		page.RequestID = id
	}
	page.Problem, page.Reason = templates.Problem(p.status), l.reason()
	page.CookiesLost, page.CookiesOff = lost, off
	page.Hidden = append(page.Hidden, hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s))
	if p.lang != "" {
		page.Hidden = append(page.Hidden, hidden("lang", lang.Tag))
	}
	page.NewURL, page.OverURL = q.showPath(&l, "lang", p.lang, fieldStep, p.step), q.showPath(&l)
	a := c.pages.html(q, 200, verdictCaptcha, lang)
	c.probes.probe(q, &a, pr)
	c.pages.rememberLang(q, &a, &p)
	c.count.shown["page"].Inc()
	if key != p.key { // the next round of a moving picture is none of its own
		c.watch.noteShown(q, asked.way, at)
	}
	return c.asks.show(q, a, lang, page)
}

// hidden makes a hidden field.
func hidden(name, value string) templates.HiddenField {
	return templates.HiddenField{Name: name, Value: value}
}

// challenge starts a page with a new challenge.
func (ak *asks) challenge(q *Request, lang *templates.Language, token string) *templates.ChallengePage {
	media := q.prefix() + "/captcha/"
	work := q.workURL()
	if work != "" {
		work = q.Mount + work
	}
	return &templates.ChallengePage{
		Brand:     q.Service.brand,
		RequestID: q.RequestID,
		CheckURL:  q.prefix() + "/checkcaptcha",
		Key:       token,
		ImageURL:  media + "image?key=" + token,
		AudioURL:  media + "audio?key=" + token + "&lang=" + url.QueryEscape(lang.Tag),
		WorkURL:   work,
		Limit:     printBytes(ak.cfg.FormMaxBytes),
		Test:      ak.cfg.TestAnswer != "",
	}
}

// show renders the page into the answer.
func (ak *asks) show(q *Request, a Response, lang *templates.Language, page *templates.ChallengePage) Response {
	if q.Unread {
		return Response{Status: a.Status, Outcome: OutcomeShown}
	}
	body, err := lang.AppendChallenge(make([]byte, 0, 10<<10), page)
	if err != nil {
		return ak.pages.fault(q, err)
	}
	ak.pages.setPage(q, &a, body)
	a.Outcome = OutcomeShown
	if page.WorkURL != "" {
		a.set("Content-Security-Policy", q.Service.brand.WorkCSP())
	}
	return a
}

func printBytes(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MB"
	}
	return strconv.FormatInt(n>>10, 10) + " KB"
}

// rememberLang remembers a language that was chosen in the URL for later pages.
func (pg *pages) rememberLang(q *Request, a *Response, p *params) {
	l := q.Service.set.Lang(p.lang)
	if l == nil || cookieValue(q.View, pg.cfg.LangCookie) == l.Tag {
		return
	}
	a.add("Set-Cookie", string(q.appendCookie(pg.cfg.LangCookie, []byte(l.Tag), 0)))
}

// appendCookie makes a Set-Cookie of the captcha page's own, which goes as far as the pass does: into frames of other sites too,
// where the service is for them.
func (q *Request) appendCookie(name string, value []byte, life time.Duration) []byte {
	same := q.Service.sameSite
	return spravka.AppendSetCookie(nil, name, value, "", "/", life, q.secure() || same != "Lax", true, same)
}

// prefix precedes the paths of the gateway's own pages, as the client has to ask for them.
func (q *Request) prefix() string { return q.Mount + q.Service.prefix }

// showPath is showURL as the client has to ask for it, without its host.
func (q *Request) showPath(l *link, extra ...string) string {
	return q.Mount + q.Service.showURL(l, extra...)
}

func (q *Request) secure() bool { return strings.HasPrefix(q.Base, "https://") }

func hasCookie(q *Request, name string) bool {
	_, ok := q.View.Cookie(name)
	return ok
}

// probeState is the content of the probe cookie: a random mark of the browser, and how many right answers it gave without
// bringing back a pass. The client may write anything there: it only decides which advice is shown, and whether a carried
// form that knows the mark is sent on from another network.
type probeState struct {
	mark     string
	unkept   int
	returned bool // the browser sent it
}

const probeMarkLen = 22

// probes tell whether browsers keep cookies.
type probes struct {
	*core
	lost *bounded.Rate // right answers without the cookie coming back
}

// probeOf reads the probe cookie, or makes a new mark, once per request.
func (pb *probes) probeOf(q *Request) probeState {
	if q.probe == nil {
		p := readProbe(q, pb.cfg.ProbeCookie)
		q.probe = &p
	}
	return *q.probe
}

// markHash is the form in which a key stores a mark.
func markHash(mark string) uint64 {
	sum := sha256.Sum256([]byte(mark))
	return binary.BigEndian.Uint64(sum[:])
}

func readProbe(q *Request, name string) probeState {
	mark, n, ok := strings.Cut(cookieValue(q.View, name), ".")
	if ok && len(mark) == probeMarkLen && len(n) == 1 && n[0] >= '0' && n[0] <= '9' {
		if _, err := base64.RawURLEncoding.DecodeString(mark); err == nil {
			return probeState{mark: mark, unkept: int(n[0] - '0'), returned: true}
		}
	}
	id := spravka.NewID()
	return probeState{mark: base64.RawURLEncoding.EncodeToString(id[:])}
}

// probeLife is how long the probe cookie is kept: long enough for a form.
const probeLife = 24 * time.Hour

// probe gives the browser its probe cookie, if it has none.
func (pb *probes) probe(q *Request, a *Response, p probeState) {
	if !p.returned {
		pb.setProbe(q, a, p)
	}
}

func (pb *probes) setProbe(q *Request, a *Response, p probeState) {
	value := append([]byte(p.mark), '.', byte('0'+min(p.unkept, 9)))
	a.add("Set-Cookie", string(q.appendCookie(pb.cfg.ProbeCookie, value, probeLife)))
}

// After lostMany right answers without a returned cookie the page explains that cookies are needed. A browser that keeps
// the probe has its own count; those that keep nothing are counted by address and kind of browser, for a while.
const (
	lostMany  = 2
	lostEvery = 30 * time.Minute
)

func (pb *probes) lostKey(q *Request) uint64 {
	return pb.lost.AddrKey(q.ID.Addr, agentOf(q))
}

func (pb *probes) cookiesLost(q *Request, p probeState, at time.Time) bool {
	if hasCookie(q, q.Service.cookie) {
		return false
	}
	if p.returned {
		return p.unkept >= lostMany
	}
	return pb.lost.Peek(pb.lostKey(q), at) > 0
}

// noteSolved counts a right answer that came without the cookie of an earlier one, and records it in the probe cookie.
func (pb *probes) noteSolved(q *Request, a *Response, at time.Time) {
	p := pb.probeOf(q)
	switch {
	case hasCookie(q, q.Service.cookie):
		if p.unkept == 0 {
			return
		}
		p.unkept = 0
	default:
		p.unkept++
		if !p.returned {
			pb.lost.Take(pb.lostKey(q), at)
		}
	}
	pb.setProbe(q, a, p)
}

// Blocked refuses a client: 403 in a form that it reads.
func (c *Captcha) Blocked(q *Request, r Reader) Response {
	switch r {
	case ReadsPage:
		return c.blockedPage(q, nil, q.original())
	case ReadsJSON:
		a := c.pages.own(q, 403, typeJSON, verdictBlocked)
		c.pages.cors(q, &a)
		a.Body = marshal(noticeJSON{Type: "blocked", RequestID: q.RequestID})
		return a
	case ReadsXML:
		a := c.pages.own(q, 403, typeXML, verdictBlocked)
		a.Body = errorXML(403, "Blocked", q.RequestID)
		return a
	case ReadsText:
		return c.pages.program(q, 403, verdictBlocked, "Blocked", 0)
	}
	return c.SubResource(q, true)
}

// blockedPage is the page for a client that is refused: with a way to the owner, and a switch of languages that leads here
// through the captcha page, where BlockedPage answers. to is the URL that was asked for.
func (c *Captcha) blockedPage(q *Request, p *params, to string) Response {
	l := c.links.signLink(q, to, false, c.now())
	return c.pages.messagePage(q, p, 403, verdictBlocked, &templates.MessagePage{
		Message: templates.Blocked, SwitchURL: q.prefix() + "/showcaptcha",
		Hidden: []templates.HiddenField{hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s)},
	})
}

// BlockedPage answers a blocked client that opens the captcha page. It comes from the switch of languages of its page: the
// choice is remembered, and the page leads back to what was asked for first.
func (c *Captcha) BlockedPage(q *Request) Response {
	p := readParams(q)
	l := p.link()
	p.choose(q)
	a := c.blockedPage(q, &p, c.links.follow(q, &l, nil, c.now()))
	c.pages.rememberLang(q, &a, &p)
	return a
}

// SubResource refuses an image, a style, a script and the like: an empty 403, never a page.
func (c *Captcha) SubResource(q *Request, blocked bool) Response {
	if q.Unread {
		return Response{Status: 403}
	}
	verdict := verdictCaptcha
	if blocked {
		verdict = verdictBlocked
	}
	a := c.pages.own(q, 403, "", verdict)
	a.add("Vary", "*")
	return a
}

// CrossSite refuses a page to a page of another site, which did not open it.
func (c *Captcha) CrossSite(q *Request) Response {
	a := c.pages.own(q, 403, "text/plain; charset=utf-8", verdictBlocked)
	a.add("Vary", "*")
	a.Body = []byte("cross-site request for a page\n")
	return a
}

func (pg *pages) message(q *Request, p *params, status int, verdict string, m templates.Message, retry string) Response {
	return pg.messagePage(q, p, status, verdict, &templates.MessagePage{Message: m, Retry: retry, Sent: m == templates.FormSent})
}

// messagePage completes a plain page and makes it an answer.
func (pg *pages) messagePage(q *Request, p *params, status int, verdict string, page *templates.MessagePage) Response {
	if q.Unread {
		return Response{Status: status}
	}
	lang := pg.language(q, p)
	a := pg.html(q, status, verdict, lang)
	page.Brand, page.RequestID, page.Limit = q.Service.brand, q.RequestID, printBytes(pg.cfg.FormMaxBytes)
	body, err := lang.AppendMessage(make([]byte, 0, 6<<10), page)
	if err != nil {
		return pg.fault(q, err)
	}
	pg.setPage(q, &a, body)
	if page.Wait > 0 {
		a.set("Content-Security-Policy", q.Service.brand.WaitCSP())
	}
	return a
}

// limited answers too many attempts: 429 and how long to wait; never a ban.
func (pg *pages) limited(q *Request, p *params, wait time.Duration, retry string) Response {
	a := pg.messagePage(q, p, 429, verdictCaptcha, &templates.MessagePage{Message: templates.Limited, Retry: retry, Wait: wait})
	a.after(wait)
	a.Outcome = OutcomeLimited
	return a
}

// Static serves antirobot.js, the texts of its dialog, and the files that operators' pages may use, below /captcha/. path
// is the raw path of the request. None of them depends on a visitor: any site may read them, and a browser may keep
// antirobot.js and its texts as long as it revalidates them each time.
func (c *Captcha) Static(q *Request, path string) Response {
	name, ok := strings.CutPrefix(path, q.Service.prefix+"/captcha/")
	file, found := q.Service.set.Static(name)
	if name == "texts" {
		p := readParams(q)
		file, found = c.pages.language(q, &p).Texts(), true
	}
	if !ok || !found || name == evidenceScript {
		return c.Failed(q, 404, ReadsPage)
	}
	if m := q.method(); m != "GET" && m != "HEAD" {
		return c.pages.notAllowed(q, "GET, HEAD")
	}
	a := c.pages.own(q, 200, file.Type, verdictCaptcha)
	a.add("Vary", "Accept-Encoding")
	a.add("Access-Control-Allow-Origin", "*")
	a.add("Cross-Origin-Resource-Policy", "cross-origin")
	a.Body = file.Body
	if request.AcceptsCoding(q.View.Get("Accept-Encoding"), "gzip") {
		if z := file.Gzip(); z != nil {
			a.add("Content-Encoding", "gzip")
			a.Body = z
		}
	}
	return a
}

func (pg *pages) notAllowed(q *Request, allow string) Response {
	a := pg.own(q, 405, "text/plain; charset=utf-8", "")
	a.add("Allow", allow)
	a.Body = []byte("Here only " + allow + " are answered.\n")
	return a
}
