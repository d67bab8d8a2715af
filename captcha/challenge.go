package captcha

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"antirobot/captcha/location"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// asks presents challenges, on pages and to scripts and partners.
type asks struct {
	*core
	pages   *pages
	probes  *probes
	links   *links
	issuer  *issuer
	ladder  *ladder
	prices  *prices
	watch   *watch
	answers *answers
}

// Redirect sends a page's visitor to the captcha page. Nothing is shown yet: Page reports that.
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

// framedElsewhere reports whether a page is opened in a frame of another site: the gateway's pages are framed by its
// own host and cors_origins alone. Within such a frame Referer names the service itself, and only
// Sec-Fetch-Storage-Access reveals it.
func (q *Request) framedElsewhere() bool {
	switch string(q.View.Get("Sec-Fetch-Dest")) {
	case "iframe", "frame":
	default:
		return false
	}
	switch string(q.View.Get("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		u, ok := location.Parse(string(q.View.Get("Referer")))
		if !ok {
			return true
		}
		origin := u.Origin()
		return !slices.ContainsFunc(q.Service.origins, func(o location.Origin) bool { return o.Fits(origin) })
	}
	return q.View.Has("Sec-Fetch-Storage-Access") && len(q.Service.origins) == 0
}

// framed is a page that opens the challenge in a tab of its own.
func (ak *asks) framed(q *Request) Response {
	l := ak.links.signLink(q, q.linked(), false, ak.now())
	ak.count.shown["redirect"].Inc()
	a := ak.pages.messagePage(q, nil, 403, verdictCaptcha, &templates.MessagePage{
		Message: templates.Framed,
		Tab:     q.Base + q.Service.showURL(&l),
	})
	a.set("Content-Security-Policy", q.Service.brand.FramedCSP())
	a.Header = slices.DeleteFunc(
		a.Header, func(f HeaderField) bool { return request.EqualFold(f.Name, "X-Frame-Options") },
	)
	return a
}

// mayMove reports whether a visitor is first asked to prove that a pass from another network is its own. A challenge
// because of a message or by the service needs an answer, unless the pass was earned by one just now. stay says that
// the browser could not prove it.
func (ak *asks) mayMove(q *Request, reason templates.Reason, least Step, stay bool) bool {
	switch {
	case stay || !q.ID.Away.Keyed() || q.Partner != nil || reason == templates.ReasonMessage:
		return false
	case reason == templates.ReasonService:
		return satisfies(&q.ID.Away, least, ak.now())
	}
	return true
}

func (ak *asks) challenge(q *Request, lang *templates.Language, token string) *templates.ChallengePage {
	media := q.prefix() + "/captcha/"
	work := ""
	if q.offersWork() {
		work = media + "work.js"
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

// reading makes the key of a page with digits or a moving picture. With a moving picture, it goes on with the round
// in p.
func (ak *asks) reading(q *Request, p *params, asked question, to string, at time.Time) (token string, moves bool) {
	if p != nil && p.key != "" {
		if k, _, err := ak.issuer.open(q, p.key, at); err == nil && k.kind == movingCode && ak.issuer.shownTo(&k, q) {
			return p.key, true
		}
	}
	if asked.step < stepDynamic || p != nil && p.step != "" {
		return ak.issuer.issueDigits(q, asked, to, at), false
	}
	return ak.issuer.seal(q, ak.issuer.newMoving(q, asked), to, at), true
}

// showMoving turns page into one with a moving picture; it keeps digits for browsers without scripts.
func (ak *asks) showMoving(
	q *Request, page *templates.ChallengePage, lang *templates.Language, asked question, to string, at time.Time,
) {
	asked.step = max(asked.step, stepDynamic)
	page.Moving, page.Still = true, ak.challenge(q, lang, ak.issuer.issueDigits(q, asked, to, at))
}

// instead returns the step that p's visitor chose, now or on the page before: digits or "".
func (ak *asks) instead(q *Request, p *params, at time.Time) string {
	if p.step == "" && p.key != "" {
		if k, _, err := ak.issuer.open(q, p.key, at); err == nil && k.kind == digitsCode && k.asked != stepDigits {
			return stepDigits.String()
		}
	}
	return p.step
}

func (ak *asks) checkingPage(q *Request, p *params, l *link, asked question, at time.Time) Response {
	lang := ak.pages.language(q, p)
	page := ak.checking(q, asked, l.url, at)
	page.Hidden = append(page.Hidden, hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s))
	if p.lang != "" {
		page.Hidden = append(page.Hidden, hidden("lang", lang.Tag))
	}
	page.OverURL = q.showPath(l)
	page.DigitsURL = q.showPath(l, "lang", p.lang, fieldStep, stepDigits.String())
	page.Reason = l.reason()
	if id := l.stoppedID(); id != "" {
		page.RequestID = id
	}
	return ak.showChecking(q, p, page, asked, "", at)
}

func (ak *asks) checking(q *Request, asked question, to string, at time.Time) *templates.CheckPage {
	token, t := ak.issuer.issueCheck(q, asked, to, at)
	text, err := json.Marshal(t)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &templates.CheckPage{
		Brand:     q.Service.brand,
		RequestID: q.RequestID,
		CheckURL:  q.prefix() + "/checkcaptcha",
		Key:       token,
		Work:      string(text),
		PartURL:   q.prefix() + "/captcha/image?key=" + token,
		Press:     asked.step == stepPress && !asked.move,
	}
}

// showChecking renders the page; referrer is its Referrer-Policy, empty for the default.
func (ak *asks) showChecking(
	q *Request, p *params, page *templates.CheckPage, asked question, referrer string, at time.Time,
) Response {
	lang := ak.pages.language(q, p)
	a := ak.pages.html(q, 200, verdictCaptcha, lang)
	a.set("Content-Security-Policy", q.Service.brand.CheckCSP())
	if referrer != "" {
		a.set("Referrer-Policy", referrer)
	}
	ak.probes.probe(q, &a, ak.probes.probeOf(q))
	if p != nil {
		ak.pages.rememberLang(q, &a, p)
	}
	body, err := lang.AppendCheck(make([]byte, 0, 12<<10), page)
	if err != nil {
		return ak.pages.fault(q, err)
	}
	ak.pages.setPage(q, &a, body)
	a.Outcome = OutcomeShown
	shown := waySilent
	if page.Press {
		shown = wayPress
	}
	ak.count.shown["page"].Inc()
	if !asked.move {
		ak.watch.noteShown(q, shown, at)
	}
	return a
}

// challengeJSON is a challenge for a script. The first four fields of captcha come from the original system.
type challengeJSON struct {
	Type      string        `json:"type"`
	Captcha   challengeBody `json:"captcha"`
	V         int           `json:"v"`
	RequestID string        `json:"request-id"`
	Reason    string        `json:"reason"`    // network, pace, message or load
	Forwarded bool          `json:"forwarded"` // always: the service never saw it, so repeating it is safe
	Test      bool          `json:"test,omitempty"`
}

type challengeBody struct {
	ImgURL      string   `json:"img-url,omitempty"` // neither picture nor sound where work is asked for
	Key         string   `json:"key"`
	Status      string   `json:"status"`
	CaptchaPage string   `json:"captcha-page"`
	AudioURL    string   `json:"audio-url,omitempty"`
	CheckURL    string   `json:"check-url"`
	ExpiresIn   int64    `json:"expires-in"` // seconds
	Length      int      `json:"length,omitempty"`
	WorkURL     string   `json:"work-url,omitempty"` // the script that does the work, if the service offers it
	Work        *task    `json:"work,omitempty"`     // the work to do
	Ask         *askBody `json:"ask,omitempty"`      // a check of the browser that passes as well
}

// askBody is a step that a script may take instead of digits.
type askBody struct {
	Step     string `json:"step"` // silent, press or dynamic
	Key      string `json:"key"`
	Work     *task  `json:"work,omitempty"`
	PartURL  string `json:"part-url,omitempty"`
	ImgURL   string `json:"img-url,omitempty"` // of a moving picture
	AudioURL string `json:"audio-url,omitempty"`
}

const solvedJSON = `{"type":"captcha","captcha":{"status":"success"}}`

// ChallengeJSON is the challenge for a script.
func (c *Captcha) ChallengeJSON(q *Request) Response {
	at := c.now()
	c.count.shown["json"].Inc()
	l := c.links.signLink(q, q.linked(), false, at)
	a := c.asks.challengeJSON(q, &l, nil, q.Service.ajaxStatus, at)
	q.noteRetpath(&a)
	return a
}

// challengeJSON is the challenge after the answer r, nil: before any.
func (ak *asks) challengeJSON(q *Request, l *link, r *result, code int, at time.Time) Response {
	asked := ak.ladder.ask(q, q.least(), at)
	asked.move = r == nil && ak.mayMove(q, l.reason(), q.least(), false)
	asked.way = asked.scriptWay()
	if r == nil || r.next == nil {
		ak.watch.noteShown(q, asked.way, at)
	}
	if q.Unread {
		return Response{Status: code, Outcome: OutcomeShown}
	}
	token := ak.issuer.issueDigits(q, asked, l.url, at)
	media := q.Base + q.Service.prefix + "/captcha/"
	body := challengeBody{
		ImgURL:   strings.NewReplacer("{base}", q.Base, "{key}", token).Replace(q.Service.imgURL),
		Key:      token,
		Status:   r.statusText(),
		AudioURL: media + "audio?key=" + token,
		Length:   ak.answerLength(),
		Ask:      ak.askJSON(q, r, asked, l.url, at),
	}
	if q.offersWork() {
		body.WorkURL = media + "work.js"
	}
	a := ak.replyJSON(q, l, code, body)
	a.Outcome = OutcomeShown
	return a
}

// replyJSON completes a challenge for a script.
func (ak *asks) replyJSON(q *Request, l *link, code int, body challengeBody) Response {
	body.CaptchaPage = q.Base + q.Service.showURL(l)
	body.CheckURL = q.Base + q.Service.prefix + "/checkcaptcha"
	body.ExpiresIn = int64(ak.cfg.KeyTTL / time.Second)
	return ak.pages.json(q, code, verdictCaptcha, challengeJSON{
		Type: "captcha", Captcha: body, V: 1, RequestID: q.RequestID, Reason: l.reason().String(),
		Test: ak.cfg.TestAnswer != "",
	})
}

// askJSON is the step that a script may take instead of digits; nil if digits are required.
func (ak *asks) askJSON(q *Request, r *result, asked question, to string, at time.Time) *askBody {
	media := q.Base + q.Service.prefix + "/captcha/"
	if !asked.move && asked.step >= stepDynamic || r != nil && r.next != nil {
		k := ak.issuer.newMoving(q, asked)
		if r != nil && r.next != nil {
			k = r.next
		}
		token := ak.issuer.seal(q, k, to, at)
		return &askBody{
			Step: stepDynamic.String(), Key: token, ImgURL: media + "image?key=" + token,
			AudioURL: media + "audio?key=" + token,
		}
	}
	step := asked.step
	switch {
	case asked.move:
		step = stepSilent
	case step == stepDigits:
		return nil
	}
	token, t := ak.issuer.issueCheck(q, asked, to, at)
	return &askBody{Step: step.String(), Key: token, Work: &t, PartURL: media + "image?key=" + token}
}

func (a question) scriptWay() way {
	switch {
	case a.move || a.step == stepDigits:
		return wayScript
	case a.step == stepSilent:
		return waySilent
	case a.step == stepPress:
		return wayPress
	default:
		return wayDynamic
	}
}

func (ak *asks) answerLength() int {
	if ak.cfg.TestAnswer != "" {
		return len(ak.cfg.TestAnswer)
	}
	return ak.cfg.Digits
}

func (ak *asks) workJSON(q *Request, l *link, at time.Time) Response {
	wait := ak.answers.checks.Take(ak.answers.checks.AddrKey(q.ID.Addr, 0), at)
	if wait == 0 {
		wait = ak.prices.exhausted(q, stepDigits, at)
	}
	if wait > 0 {
		ak.count.work["limited"].Inc()
		return ak.pages.limitedJSON(q, 429, wait)
	}
	price, err := ak.prices.presentWorkPrice(q, at)
	if err != nil && !ak.survives(q, "price of work", err) {
		return ak.pages.limitedJSON(q, 503, retryUnavailable)
	}
	k := key{kind: workCode, channel: channelPage, way: wayWork, addr: q.ID.Addr, secret: work{}.issue(price)}
	t := work{}.task(k.secret)
	a := ak.replyJSON(q, l, 200, challengeBody{
		Key: ak.issuer.seal(q, &k, l.url, at), WorkURL: q.Base + q.Service.prefix + "/captcha/work.js", Work: &t,
	})
	ak.watch.noteShown(q, wayWork, at)
	ak.count.work["issued"].Inc() // no further outcome: it accompanies a challenge that was shown
	return a
}

// Link is 401 with the absolute URL of the captcha page, for a balancer that redirects the visitor itself. It sets no
// probe cookie, so the page does not conclude from a missing one that the browser keeps no cookies.
func (c *Captcha) Link(q *Request) Response {
	l := c.links.signLink(q, q.linked(), false, c.now())
	c.count.shown["redirect"].Inc()
	a := c.SubResource(q, false)
	a.Status = 401
	a.add("Location", q.Base+q.Service.showURL(&l))
	q.noteRetpath(&a)
	return a
}

// ChallengeXML is the challenge for a user of an XML interface. failed says that the previous answer was wrong.
func (c *Captcha) ChallengeXML(q *Request, failed bool) Response {
	c.count.shown["xml"].Inc()
	status := ""
	if failed {
		status = "failed"
	}
	return c.asks.challengeXML(q, q.ID.Addr, q.partnerHash(), status, c.now())
}

func (ak *asks) challengeXML(q *Request, who netip.Addr, partner uint64, status string, at time.Time) Response {
	a := ak.pages.own(q, 200, typeXML, verdictCaptcha)
	ak.watch.noteShown(q, wayXML, at)
	token := ak.issuer.issue(q, channelXML, who, partner, "", at)
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?>
<yandexsearch version="1.0">
<response>
<error code="100">Robot request</error>
</response>
<captcha-img-url>`)
	writeXML(&b, q.Base+q.Service.prefix+"/captcha/image?key="+token)
	b.WriteString("</captcha-img-url>\n<captcha-key>")
	writeXML(&b, token)
	b.WriteString("</captcha-key>\n<captcha-status>")
	writeXML(&b, status)
	b.WriteString("</captcha-status>\n</yandexsearch>\n")
	a.Body = b.Bytes()
	if f, ok := ak.freshPass(q, at); ok {
		a.Header = append(a.Header, f)
	}
	a.Outcome = OutcomeShown
	return a
}

// FreshPass is the Set-Cookie field that every response to a partner's user without a valid spravka carries, the
// service's own included: an unearned pass without allowance. ok is false if none is due.
func (c *Captcha) FreshPass(q *Request) (f HeaderField, ok bool) { return c.asks.freshPass(q, c.now()) }

func (ak *asks) freshPass(q *Request, at time.Time) (f HeaderField, ok bool) {
	if q.Partner == nil || q.ID.HasPass() {
		return HeaderField{}, false
	}
	pass := spravka.Pass{
		ID: spravka.NewID(), Born: at.Unix(), Expires: at.Add(ak.cfg.Pass.Lifetime).Unix(),
		Scope: q.Service.id.Scope(q.View.Host), Partner: q.partnerHash(), Net: q.ID.NetKey(),
	}
	ak.count.unearned.Inc()
	return ak.passCookie(q, &pass, at), true
}

// Static serves antirobot.js, its texts, and the files that operators' pages may use, below /captcha/. path is the
// raw path of the request. They are the same for all visitors: any site may read them, and a browser may keep
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
