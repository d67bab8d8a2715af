package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// example is one kind of request that the play page makes on behalf of the pretend visitor.
type example struct {
	Kind   string // key of the texts play.kind.KIND and .about
	Method string
	Target string
	Header []pair
	Body   string
}

type outcome struct {
	example
	Status   int
	Text     string // of the status
	Headers  []pair
	Answer   string
	Cut      bool
	Why      string
	Problem  string
	Elapsed  string
	Verdict  string // human, captcha or blocked, by X-Antirobot-Verdict
	Location string
}

// playField marks what the play page sends for the pretend visitor: the site answers it like anything else, and does not
// keep it.
const playField = "X-Demo-Play"

// shownBody is how much of a body the page shows.
const shownBody = 1500

// linkingAgent is another browser's, which was served no page a moment ago: the images of such a page pass.
const linkingAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0"

const browserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// prober sends requests to the gateway as a pretend visitor does.
type prober struct {
	opts  *Options
	now   func() time.Time
	api   *api
	http  *http.Client
	turns atomic.Int64 // of example requests
}

// examples are the kinds of request that a site gets, each with the headers by which a browser marks it.
func (p *prober) examples() []example {
	xmlTarget := "/xmlsearch?query=river"
	if p.opts.XMLQuery != "" {
		xmlTarget += "&" + p.opts.XMLQuery
	}
	fetch := func(dest, mode, site string) []pair {
		return []pair{{"Sec-Fetch-Dest", dest}, {"Sec-Fetch-Mode", mode}, {"Sec-Fetch-Site", site}}
	}
	const html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	tried := strconv.FormatInt(p.turns.Add(1), 10) // the same words over and over would rightly be taken for spam
	return []example{
		{Kind: "page", Method: "GET", Target: "/articles/river", Header: append(fetch("document", "navigate", "none"), pair{"Accept", html})},
		{
			Kind: "form", Method: "POST", Target: "/guestbook", Body: "name=Pretend+visitor&words=Hello+from+the+play+page,+try+number+" + tried,
			Header: append(fetch("document", "navigate", "same-origin"), pair{"Accept", html},
				pair{"Content-Type", "application/x-www-form-urlencoded"}, pair{playField, "1"}),
		},
		{
			Kind: "ajax", Method: "GET", Target: "/api/list?page=2",
			Header: append(fetch("empty", "cors", "same-origin"), pair{"Accept", "application/json"}, pair{"X-Requested-With", "XMLHttpRequest"}),
		},
		{Kind: "xml", Method: "GET", Target: xmlTarget, Header: []pair{{"Accept", "text/xml, application/xml"}}},
		{
			Kind: "image", Method: "GET", Target: "/pictures/fjord.png",
			Header: append(fetch("image", "no-cors", "same-origin"), pair{"Accept", "image/avif,image/webp,image/png,*/*;q=0.8"},
				pair{"User-Agent", linkingAgent}),
		},
		{
			Kind: "preflight", Method: "OPTIONS", Target: "/api/list",
			Header: append(fetch("empty", "cors", "cross-site"), pair{"Accept", "*/*"}, pair{"Origin", "http://other.example"},
				pair{"Access-Control-Request-Method", "GET"}, pair{"Access-Control-Request-Headers", "x-requested-with"}),
		},
	}
}

// tryAll makes all example requests concurrently and returns their outcomes in order.
func (p *prober) tryAll(ctx context.Context, as netip.Addr) []outcome {
	ex := p.examples()
	out := make([]outcome, len(ex))
	var wg sync.WaitGroup
	for i := range ex {
		wg.Go(func() { out[i] = p.try(ctx, ex[i], as) })
	}
	wg.Wait()
	return out
}

// try sends one request to the gateway, as a proxy in front of the visitor would.
func (p *prober) try(ctx context.Context, e example, as netip.Addr) outcome {
	o := outcome{example: e}
	req, err := http.NewRequestWithContext(ctx, e.Method, strings.TrimSuffix(p.opts.GatewayURL(), "/")+e.Target, strings.NewReader(e.Body))
	if err != nil {
		o.Problem = "the URL of the gateway is malformed"
		return o
	}
	if e.Body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header.Set("User-Agent", browserAgent)
	for _, h := range e.Header {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set("Accept-Language", "en")
	req.Header.Set("X-Forwarded-For", as.String())
	req.Header.Set("X-Real-Ip", as.String())
	from := p.now()
	resp, err := p.http.Do(req)
	if err != nil {
		o.Problem = withoutURL(err)
		return o
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		o.Problem = withoutURL(err)
	}
	o.Elapsed = p.now().Sub(from).Round(100_000).String()
	o.Status, o.Text = resp.StatusCode, http.StatusText(resp.StatusCode)
	o.Location = resp.Header.Get("Location")
	o.Verdict = resp.Header.Get("X-Antirobot-Verdict")
	if o.Verdict != "captcha" && o.Verdict != "blocked" {
		o.Verdict = "human"
	}
	o.Headers = answerHeaders(resp.Header)
	o.Answer, o.Cut = shown(b, resp.Header.Get("Content-Type"))
	o.Why = p.api.why(ctx, resp.Header.Get("X-Request-Id"))
	return o
}

// withoutURL drops the method and URL that net/http puts before an error.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

func answerHeaders(h http.Header) []pair {
	var out []pair
	for name, values := range h {
		for _, v := range values {
			if name == "Set-Cookie" {
				first, rest, _ := strings.Cut(v, ";")
				v = shorten(first) + ";" + rest
			}
			out = append(out, pair{name, clip(v, 400)})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func shown(b []byte, kind string) (text string, cut bool) {
	if len(b) == 0 {
		return "", false
	}
	if !utf8.Valid(b) || strings.HasPrefix(kind, "image/") {
		return fmt.Sprintf("%d bytes, %s", len(b), kind), false
	}
	s := clip(string(b), shownBody)
	return s, len([]rune(s)) > shownBody
}
