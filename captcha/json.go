package captcha

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"antirobot/request"
)

// challengeJSON is what a script gets instead of its answer. The first four fields of captcha come from the original
// system, the others are ours.
type challengeJSON struct {
	Type      string        `json:"type"`
	Captcha   challengeBody `json:"captcha"`
	V         int           `json:"v"`
	RequestID string        `json:"request-id"`
	Reason    string        `json:"reason"`    // network, pace, message or load: why somebody is asked
	Forwarded bool          `json:"forwarded"` // always false: the service never saw the request, so repeating it is safe
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

// noticeJSON is what a script is told that is asked for nothing.
type noticeJSON struct {
	Type      string `json:"type"` // blocked, queued, or a failure that trying again does not mend
	RequestID string `json:"request-id,omitempty"`
}

// waitJSON is what a script is told that should come again later.
type waitJSON struct {
	Type       string `json:"type"` // limited, throttle or a failure
	RequestID  string `json:"request-id,omitempty"`
	RetryAfter int64  `json:"retry-after"` // seconds
}

const solvedJSON = `{"type":"captcha","captcha":{"status":"success"}}`

// marshal encodes without escaping characters that only matter inside HTML: some clients look for literal URLs.
func marshal(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return buf.Bytes()
}

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

// ChallengeJSON is the challenge for a script.
func (c *Captcha) ChallengeJSON(q *Request) Response {
	at := c.now()
	c.count.shown["json"].Inc()
	l := c.links.signLink(q, q.linked(), false, at)
	a := c.asks.challengeJSON(q, &l, nil, q.Service.ajaxStatus, at)
	q.noteRetpath(&a)
	return a
}

// challengeJSON is a challenge for a script, after the answer r or before any (nil).
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
	a := ak.pages.own(q, code, typeJSON, verdictCaptcha)
	ak.pages.cors(q, &a)
	token := ak.issuer.issueDigits(q, asked, l.url, at)
	workURL := q.workURL()
	if workURL != "" {
		workURL = q.Base + workURL
	}
	a.Body = marshal(challengeJSON{
		Type: "captcha",
		Captcha: challengeBody{
			ImgURL:      strings.NewReplacer("{base}", q.Base, "{key}", token).Replace(q.Service.imgURL),
			Key:         token,
			Status:      r.statusText(),
			CaptchaPage: q.Base + q.Service.showURL(l),
			AudioURL:    q.Base + q.Service.prefix + "/captcha/audio?key=" + token,
			CheckURL:    q.Base + q.Service.prefix + "/checkcaptcha",
			ExpiresIn:   int64(ak.cfg.KeyTTL / time.Second),
			Length:      ak.answerLength(),
			WorkURL:     workURL,
			Ask:         ak.askJSON(q, r, asked, l.url, at),
		},
		V:         1,
		RequestID: q.RequestID,
		Reason:    l.reason().String(),
		Test:      ak.cfg.TestAnswer != "",
	})
	a.Outcome = OutcomeShown
	return a
}

// askJSON is the step that a script may take instead of digits; nil if digits are asked for.
func (ak *asks) askJSON(q *Request, r *result, asked question, to string, at time.Time) *askBody {
	media := q.Base + q.Service.prefix + "/captcha/"
	if !asked.move && asked.step >= stepDynamic || r != nil && r.next != nil {
		k := ak.issuer.newMoving(q, asked)
		if r != nil && r.next != nil {
			k = r.next
		}
		token := ak.issuer.seal(q, k, to, at)
		return &askBody{Step: stepDynamic.String(), Key: token, ImgURL: media + "image?key=" + token, AudioURL: media + "audio?key=" + token}
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

// scriptWay is the way in which a script's challenge is counted: that of the step which it may take instead of digits.
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

func (pg *pages) limitedJSON(q *Request, code int, wait time.Duration) Response {
	a := pg.own(q, code, typeJSON, verdictCaptcha)
	pg.cors(q, &a)
	a.after(wait)
	kind := "limited"
	if code == 503 {
		kind = "unavailable"
	} else {
		a.Outcome = OutcomeLimited
	}
	a.Body = marshal(waitJSON{Type: kind, RequestID: q.RequestID, RetryAfter: seconds(wait)})
	return a
}

// allowedOrigin returns the request's Origin if its scripts may read our answers.
func (q *Request) allowedOrigin() string {
	origin := string(q.View.Get("Origin"))
	if origin == "" || len(origin) > 512 {
		return ""
	}
	if request.EqualFold(origin, strings.TrimSuffix(q.Base, q.Mount)) {
		return origin
	}
	lower := string(request.AppendLower(nil, origin))
	for _, r := range q.Service.origins {
		if r.Fits(lower) {
			return origin
		}
	}
	return ""
}

// cors lets the page's script read the answer if the service allows its origin.
func (pg *pages) cors(q *Request, a *Response) {
	a.add("Vary", "Origin")
	origin := q.allowedOrigin()
	if origin == "" {
		return
	}
	a.add("Access-Control-Allow-Origin", origin)
	a.add("Access-Control-Allow-Credentials", "true")
	a.add(exposeField, pg.cfg.Headers.Verdict+", "+pg.cfg.Headers.RequestID)
}

// preflight answers a CORS preflight request for /checkcaptcha.
func (pg *pages) preflight(q *Request) Response {
	a := pg.own(q, 204, "", verdictCaptcha)
	pg.cors(q, &a)
	if q.allowedOrigin() != "" {
		a.add("Access-Control-Allow-Methods", "GET, POST")
		a.add("Access-Control-Allow-Headers", "X-Requested-With, Content-Type, Accept")
		a.add("Access-Control-Max-Age", "600")
	}
	return a
}
