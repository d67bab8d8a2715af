package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/replay"
)

// A browser that runs scripts, shows pictures and keeps cookies passes a silent check without its user. People whose
// browsers do that go on: the check is counted, and does not hurt them. So do robots in browsers that hide how they are
// driven (Config.Hidden). Solvers among the harvesters read the digits of a captcha.

const (
	checkTakes   = 300 * time.Millisecond // by a browser
	passPrefix   = "spravka="             // begins the cookie of a pass
	solverAnswer = "314159"               // has to be captcha.test_answer where harvesters read pictures
)

// runsScripts reports whether the client's browser passes a silent check.
func (c *client) runsScripts() bool {
	return c.family != program && c.cookies && (c.warm || c.only == nil || c.only(destScript) && c.only(destImage))
}

// mayCheck reports whether the client takes a silent check if challenged with one.
func (w *world) mayCheck(c *client) bool {
	return c.runsScripts() && !c.unchecked && c.kind != Harvester && (!c.kind.robot() || w.cfg.Hidden)
}

// goesOn plans a silent check and the same request again; it reports whether the client was challenged with no more.
func (w *world) goesOn(c *client, p *planned, s *replay.Served) bool {
	if s.Sent.To == "" || !s.Checks() || !w.mayCheck(c) {
		w.req.More, c.unchecked = c.unchecked, false
		return false
	}
	for _, cookie := range s.Sent.Cookies {
		if strings.HasPrefix(cookie, "antirobot_probe=") {
			c.probe = cookie
		}
	}
	again := *p
	again.after = checkTakes
	to := strings.TrimPrefix(s.Sent.To, "https://"+w.cfg.Host)
	c.plan = slices.Insert(c.plan, 0, planned{after: 200 * time.Millisecond, path: to, dest: destCheck}, again)
	return true
}

// work is what a page asks a browser to compute.
type work struct {
	Seed  string
	Parts uint32
	Below uint32
}

// check takes a silent check, and keeps the pass that it earns. Without one the next request is challenged with more.
func (w *world) check(c *client, to string) {
	c.unchecked = true
	page := string(w.own(c, &planned{path: to, dest: destCaptcha}, "").Body)
	var t work
	if strings.Contains(page, `id="press"`) || json.Unmarshal([]byte(attribute(page, "data-work")), &t) != nil {
		return
	}
	part := w.own(c, &planned{path: attribute(page, "data-part"), dest: destImage}, "").Body
	if len(part) < 10 || !strings.HasPrefix(string(part), "GIF89a") {
		return
	}
	size := int(part[6])<<8 | int(part[8]) // its width and height, of one byte each
	if w.submit(c, attribute(page, `name="key" value`), t.solve()+"x"+strconv.Itoa(size)).pass {
		c.unchecked = false
	}
}

// solve requests a picture, and answers it when called again after the time that reading it takes. It earns a pass, or
// returns how long the client has to wait; the others go on meanwhile.
func (c *client) solve(w *world) (wait time.Duration) {
	if c.reply == "" {
		var q struct{ Captcha struct{ Key string } }
		got := w.post(c, "format=json&new=1")
		if json.Unmarshal(got.Body, &q) != nil || q.Captcha.Key == "" {
			return max(got.After, time.Second)
		}
		c.reply = q.Captcha.Key
		return w.shop.by.digits
	}
	a := w.submit(c, c.reply, solverAnswer)
	c.reply = ""
	if a.pass {
		return 0
	}
	return max(a.after, time.Second)
}

type response struct {
	pass  bool
	after time.Duration // Retry-After
}

// submit sends the answer to a challenge, and keeps the pass that it earns.
func (w *world) submit(c *client, key, rep string) (a response) {
	got := w.post(c, "format=json&key="+key+"&rep="+rep)
	for _, cookie := range got.Cookies {
		if strings.HasPrefix(cookie, passPrefix) {
			c.pass, a.pass = cookie, true
		}
	}
	a.after = got.After
	return a
}

func (w *world) post(c *client, body string) replay.OwnAnswer {
	return w.own(c, &planned{path: "/checkcaptcha", dest: destFetch, post: true}, body)
}

// own requests one of the gateway's own pages; body is posted.
func (w *world) own(c *client, p *planned, body string) replay.OwnAnswer {
	c.fill(&w.view, p, w.cfg.Host)
	if w.cfg.Via == Nginx {
		w.throughNginx(&w.view)
	}
	return w.server.Answer(&w.view, []byte(body))
}

// attribute returns the value of the first attribute of a name in a page.
func attribute(page, name string) string {
	_, rest, _ := strings.Cut(page, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// solve computes for each part a number whose hash is below the bound.
func (t *work) solve() string {
	seed, err := hex.DecodeString(t.Seed)
	if err != nil {
		return ""
	}
	b := append(seed, make([]byte, 8)...)
	found := make([]string, 0, t.Parts)
	for part := range t.Parts {
		binary.BigEndian.PutUint32(b[len(seed):], part)
		for n := uint32(0); ; n++ {
			binary.BigEndian.PutUint32(b[len(seed)+4:], n)
			if sum := sha256.Sum256(b); binary.BigEndian.Uint32(sum[:]) < t.Below {
				found = append(found, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return strings.Join(found, ".")
}
