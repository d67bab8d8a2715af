package captcha

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"time"

	"antirobot/bounded"
	"antirobot/spravka"
)

// Message is the fingerprint of a message's contents.
type Message = [32]byte

// A grant lets a message pass for which the rules required a captcha, without running them again. A carried form has
// it in its seal. For a request that its sender repeats it is a cookie, sealed over the message and the time of the
// challenge, and valid once, together with a pass earned since then. A pass serves only one grant, so each message
// costs an answer of its own.

const (
	grantVersion = 1
	grantFixed   = 1 + 32 + 8
	grantCookie  = "antirobot_grant_" // followed by the start of the fingerprint, so that two tabs do not interfere
)

// grants lets challenged messages pass.
type grants struct {
	*core
	spent *bounded.Once
}

func grantName(m *Message) string { return grantCookie + hex.EncodeToString(m[:4]) }

// ChallengeMessageForm is ChallengeForm for a request that the message rules challenge. A form that is too large to
// be carried can be sent again after the right answer.
func (c *Captcha) ChallengeMessageForm(q *Request, m *Message, decision string) Response {
	a := c.forms.challengeForm(q, decision)
	if q.BodyTooLarge || int64(len(q.Body)) > c.cfg.FormMaxBytes {
		c.grants.offerGrant(q, &a, m, decision)
	}
	return a
}

// ChallengeMessageJSON is ChallengeJSON for a request that the message rules challenge: once solved, the same message
// passes when it is sent again.
func (c *Captcha) ChallengeMessageJSON(q *Request, m *Message, decision string) Response {
	a := c.ChallengeJSON(q)
	c.grants.offerGrant(q, &a, m, decision)
	return a
}

func (gr *grants) offerGrant(q *Request, a *Response, m *Message, decision string) {
	at := gr.now()
	b := append(make([]byte, 0, grantFixed+len(decision)), grantVersion)
	b = append(b, m[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(at.Unix()))
	b = append(b, decision...)
	token := gr.keys.Ring().Seal(nil, spravka.PurposeGrant, q.keyContext(), b, at.Add(gr.cfg.KeyTTL))
	a.Header = append(a.Header, q.cookieField(grantName(m), token, "", gr.cfg.KeyTTL))
}

// TakeGrant spends the grant for a message, if q brings one with a pass that validates it. It returns the decision
// about the message, and the field that removes the cookie.
func (c *Captcha) TakeGrant(q *Request, m *Message) (decision string, gone HeaderField, ok bool) {
	token, found := q.View.Cookie(grantName(m))
	if !found || q.Partner != nil {
		return "", HeaderField{}, false
	}
	at := c.now()
	b, err := c.keys.Ring().Open(nil, spravka.PurposeGrant, q.keyContext(), token, at)
	if err != nil || len(b) < grantFixed || b[0] != grantVersion || Message(b[1:33]) != *m {
		return "", HeaderField{}, false
	}
	asked := int64(binary.BigEndian.Uint64(b[33:]))
	for i := range q.ID.NPasses {
		p := &q.ID.Passes[i]
		if p.Earned && p.Born >= asked && c.grants.spendGrant(q, p, at) {
			return string(b[grantFixed:]), q.cookieField(grantName(m), nil, "", -time.Second), true
		}
	}
	return "", HeaderField{}, false
}

// spendGrant reports, for all nodes, whether the pass has served no grant yet.
func (gr *grants) spendGrant(q *Request, p *spravka.Pass, at time.Time) bool {
	nonce := p.ID
	nonce[0] ^= 0xff // distinct from answers and forms in the node's own set
	if !gr.spent.Add(nonce, at) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), gr.patience)
	defer cancel()
	first, _ := gr.spend(ctx, q, append([]byte("captcha/grant/"), p.ID[:]...), gr.cfg.KeyTTL, true, "spend a grant")
	return first
}
