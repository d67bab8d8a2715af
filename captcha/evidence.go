package captcha

import (
	"context"
	"encoding/json"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// evidenceScript is the script without a seal: nothing that Static serves.
const evidenceScript = "evidence.js"

// evidenceTTL is how long a page may be open before it tells anything.
const evidenceTTL = time.Hour

// toldEvery and toldMany are how often, and how often at once, pages of an address are listened to, since each time the store keeps
// something for an hour; a script to be told by is free.
const (
	toldEvery = time.Minute / 300
	toldMany  = 300
)

// Inserts returns the path of the script whose tag is put into the service's pages, empty for none, and whether their
// Content-Security-Policy is changed where it forbids the script.
func (s *Settings) Inserts() (path string, extends bool) { return s.inserted, s.extends }

// EvidenceScript serves the script of a page, with a seal that binds what it says to its visitor. It is not to be kept.
func (c *Captcha) EvidenceScript(q *Request) Response {
	if m := q.method(); m != "GET" && m != "HEAD" {
		return c.pages.notAllowed(q, "GET, HEAD")
	}
	file, ok := q.Service.set.Static(evidenceScript)
	if !ok {
		return c.Failed(q, 404, ReadsPage)
	}
	nonce := spravka.NewID()
	seal := c.keys.Ring().SealSecret(nil, spravka.PurposeEvidence, q.evidenceContext(), nonce[:], c.now().Add(evidenceTTL))
	told, err := json.Marshal(map[string]string{"seal": string(seal), "to": q.prefix() + "/captcha/evidence"})
	if err != nil {
		panic("BUG: two strings do not encode: " + err.Error())
	}
	a := c.pages.own(q, 200, file.Type, verdictCaptcha)
	a.add("Cross-Origin-Resource-Policy", "same-origin")
	a.Body = append(append(append([]byte("var antirobotSeal="), told...), ";\n"...), file.Body...)
	return a
}

// Evidence takes what a page says of its browser, once for each script that was served. Whatever is wrong with it, the
// answer is empty, and nothing is held against the visitor.
func (c *Captcha) Evidence(q *Request) Response {
	if q.method() != "POST" {
		return c.pages.notAllowed(q, "POST")
	}
	a := c.pages.own(q, 204, "", "")
	seal, e, ok := request.ParseEvidence(q.Body)
	if !ok {
		return a
	}
	at := c.now()
	nonce, err := c.keys.Ring().OpenSecret(nil, spravka.PurposeEvidence, q.evidenceContext(), seal, at)
	if err != nil || c.told.Take(c.told.AddrKey(q.ID.Addr, 0), at) > 0 {
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	if first, err := c.store.Spend(ctx, append([]byte("captcha/evidence/"), nonce...), evidenceTTL); err != nil || !first {
		return a // unknown is better than twice
	}
	a.Evidence, a.Outcome = e, OutcomeEvidence
	return a
}

// evidenceContext binds evidence to the service and to the visitor: to its browser's cookie, however young, or to whatever
// else it is known by.
func (q *Request) evidenceContext() []byte {
	s := q.ID.Young()
	if s.Kind == identity.KindNone {
		s = q.ID.Winner()
	}
	return spravka.AppendContext(nil, q.Service.name, s.String())
}
