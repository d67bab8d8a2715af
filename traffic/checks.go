package traffic

import (
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/replay"
)

// A silent check of the gateway's is passed by a browser that runs its script, shows its picture and keeps cookies; nobody who sits before it
// has anything to do. People whose browsers do that go on: the check is counted, and does not hurt them. So do robots in browsers if the
// configuration says that they hide how they are driven (Config.Hidden).

// checkTakes is how long a browser works for a check.
const checkTakes = 300 * time.Millisecond

// runsScripts reports whether the client's browser passes a silent check.
func (c *client) runsScripts() bool {
	return c.family != program && c.cookies && (c.warm || c.only == nil || c.only(destScript) && c.only(destImage))
}

// mayCheck reports whether the client takes a silent check where one is asked for.
func (w *world) mayCheck(c *client) bool {
	return c.runsScripts() && !c.unchecked && c.kind != Harvester && (!c.kind.Robot() || w.cfg.Hidden)
}

// goesOn plans a silent check, and then what was asked for once more; it reports whether that is all that is asked of the client.
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

// check takes the silent check of a page of the gateway's, and keeps the pass that it earns. Who gets none, as more is asked for than a
// check, is stopped by the next request.
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
	rep, _ := toil(&t)
	a := w.own(c, &planned{path: "/checkcaptcha", dest: destFetch, post: true}, "format=json&key="+attribute(page, `name="key" value`)+"&rep="+rep+"x"+strconv.Itoa(size))
	for _, cookie := range a.Cookies {
		if strings.HasPrefix(cookie, passPrefix) {
			c.pass, c.unchecked = cookie, false
		}
	}
}

// attribute returns the value of the first attribute of a name in a page of ours.
func attribute(page, name string) string {
	_, rest, _ := strings.Cut(page, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// own requests one of the gateway's own pages; body is what is posted.
func (w *world) own(c *client, p *planned, body string) replay.OwnAnswer {
	c.fill(&w.view, p, w.cfg.Host)
	if w.cfg.Via == Nginx {
		w.throughNginx(&w.view)
	}
	return w.server.Answer(&w.view, []byte(body))
}
