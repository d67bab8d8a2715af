package requestrules

import (
	"testing"

	"antirobot/request"
	"antirobot/verdict"
)

// TestClaims: a request that claims another method is judged as one of each, the strictest ruling counts, and what the
// rulings have in common is counted once.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	const frequent = `
do userFrequencyCheck(attribute="ip", count=2) mark frequent
if frequent stop as THROTTLE
stop as OK`
	s := w.service(`do bucketCheck(rate=1, per=3600, burst=4, attribute="ip") mark empty
if empty stop as QUARANTINE
do regexpCheck(regexp="DELETE$", attribute="method") mark harmless
if not harmless stop as BLOCK
do regexpCheck(regexp="POST$", attribute="method") mark elsewhere
if elsewhere stop as OK`+frequent, func(c *ServiceConfig) {
		c.After = `do attributeCheck(attribute="method", value="DELETE") mark other
if not other do counterAdd(type=1, attribute="ip")
do counterAdd(type=2, attribute="ip")`
	})
	ask := func(addr, want, method string, over bool, claims ...string) *verdict.Ruling {
		t.Helper()
		v, id := newRequest(addr, method+" /a")
		v.At, v.Overclaims = w.now(), over
		for _, c := range claims {
			v.Claims = append(v.Claims, []byte(c))
		}
		r := new(verdict.Ruling)
		s.Judge(r, v, id, shop, verdict.Human)
		s.Answered(v, id, shop, &verdict.Answer{Status: 200})
		if r.Decision != want {
			t.Errorf("%s that claims %s: %s %s, want %s", method, claims, r.Decision, r.Failed, want)
		}
		return r
	}
	ask("192.0.2.1", "OK", "POST", false)
	ask("192.0.2.1", "OK", "POST", false, "PUT", "PATCH")
	ask("192.0.2.1", "THROTTLE", "PUT", false, "POST")
	ask("192.0.2.1", "BLOCK", "POST", false, "DELETE") // takes the last token
	ask("192.0.2.1", "QUARANTINE", "PUT", false, "POST", "PATCH")
	ask("192.0.2.2", "BLOCK", "DELETE", false, "POST")
	ask("192.0.2.2", "", "PUT", true)
	if r := w.judge(s, verdict.Human, "192.0.2.3", "PUT /"); r.Decision != "OK" {
		t.Errorf("%+v", r)
	}
	if s := w.service("stop as OK"); s.byMethod || s.afterByMethod {
		t.Error("no rule reads the method")
	}
	for kind, want := range map[string]string{"1": "OK", "2": "CAPTCHA"} { // five answers, of which one of DELETE
		c := w.service(`do counterCheck(type=` + kind + `, limit=4, attribute="ip") mark many
if many stop as CAPTCHA
stop as OK`)
		if r := w.judge(c, verdict.Human, "192.0.2.1", "GET /"); r.Decision != want {
			t.Errorf("counter %s: %+v", kind, r)
		}
		c = w.service(`do counterCheck(type=` + kind + `, limit=5, attribute="ip") mark many
if many stop as CAPTCHA
stop as OK`)
		if r := w.judge(c, verdict.Human, "192.0.2.1", "GET /"); r.Decision != "OK" {
			t.Errorf("counter %s: %+v", kind, r)
		}
	}
	v, id := newRequest("192.0.2.9", "POST /a")
	v.At, v.Claims, v.Posted = w.now(), [][]byte{[]byte("PUT")}, []request.Field{}
	for range 2 {
		if got := s.Trace(v, id, shop, verdict.Human); got.Decision != "OK" || got.Trace == "" {
			t.Errorf("%+v", got)
		}
	}
}
