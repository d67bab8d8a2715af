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

const evidenceTTL = time.Hour

// Reports of an address are limited, since the store keeps a mark of each for an hour; scripts are free.
const (
	toldEvery = time.Minute / 300
	toldMany  = 300
)

// Inserts returns the path of the script to insert into the service's pages, empty for none, and whether a
// Content-Security-Policy that forbids it is extended.
func (s *Settings) Inserts() (path string, extends bool) { return s.inserted, s.extends }

// EvidenceScript serves the script of a page, with a seal that binds its report to the visitor. It must not be
// cached.
func (c *Captcha) EvidenceScript(q *Request) Response {
	if m := q.method(); m != "GET" && m != "HEAD" {
		return c.pages.notAllowed(q, "GET, HEAD")
	}
	file, ok := q.Service.set.Static(evidenceScript)
	if !ok {
		return c.Failed(q, 404, ReadsPage)
	}
	nonce := spravka.NewID()
	seal := c.keys.Ring().
		SealSecret(nil, spravka.PurposeEvidence, q.evidenceContext(), nonce[:], c.now().Add(evidenceTTL))
	told, err := json.Marshal(map[string]string{"seal": string(seal), "to": q.prefix() + "/captcha/evidence"})
	if err != nil {
		panic("BUG: two strings do not encode: " + err.Error())
	}
	a := c.pages.own(q, 200, file.Type, verdictCaptcha)
	a.add("Cross-Origin-Resource-Policy", "same-origin")
	a.Body = append(append(append([]byte("var antirobotSeal="), told...), ";\n"...), file.Body...)
	return a
}

// Evidence takes the report of a page, once for each script that was served. If anything is wrong with it, the
// response is empty all the same, and the visitor suffers no harm.
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
	if first, err := c.store.Spend(ctx, append([]byte("captcha/evidence/"), nonce...), evidenceTTL); err != nil ||
		!first {
		return a // unknown is better than twice
	}
	a.Evidence, a.Outcome = e, OutcomeEvidence
	return a
}

func (q *Request) evidenceContext() []byte {
	s := q.ID.Young()
	if s.Kind == identity.KindNone {
		s = q.ID.Winner()
	}
	return spravka.AppendContext(nil, q.Service.name, s.String())
}
