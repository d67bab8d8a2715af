package captcha

import (
	"context"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// passCookie makes the field that hands out a pass. For a partner it always contains Domain, to be replaced by the
// partner's own: the seal covers service and partner, not that attribute.
func (co *core) passCookie(q *Request, p *spravka.Pass, at time.Time) HeaderField {
	domain := q.Service.id.CookieDomain(q.View.Host)
	if p.Partner != 0 && domain == "" {
		domain = string(q.View.Host)
	}
	token := co.keys.Ring().SealPass(nil, p)
	same := q.Service.sameSite
	return HeaderField{"Set-Cookie", string(spravka.AppendSetCookie(nil, q.Service.cookie, token, domain, "/",
		time.Duration(p.Expires-at.Unix())*time.Second, q.secure() || same != "Lax", true, same))}
}

// addPass hands out the pass of a right answer; over https and for a single host also under a second name, which no sibling
// domain and no unencrypted page can set.
func (an *answers) addPass(q *Request, a *Response, r *result) {
	a.Header = append(a.Header, r.cookie)
	name := q.Service.id.HostSpravkaCookie()
	if name == "" || r.pass.Partner != 0 || !q.secure() {
		return
	}
	_, rest, _ := strings.Cut(r.cookie.Value, "=")
	a.add(r.cookie.Name, name+"="+rest)
}

// keptFor is how long a right answer that comes again is given the same pass again: the response to the first one may never
// have arrived. It is one pass with one allowance, however often it is given.
const keptFor = time.Minute

func keptKey(k *key) []byte { return append([]byte("captcha/kept/"), k.nonce[:]...) }

// keep remembers the pass that an answer has earned, for all nodes. If that fails, whoever does not get it is asked again.
func (an *answers) keep(ctx context.Context, r *result) {
	_ = an.store.Put(ctx, keptKey(&r.key), r.pass.AppendPacked(nil), keptFor)
}

// keptElsewhere is kept for an answer that another node has just spent: it may be making the pass still.
func (an *answers) keptElsewhere(ctx context.Context, q *Request, r *result, at time.Time) bool {
	for wait := 5 * time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		if an.kept(q, r, at) {
			return true
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
	}
	return false
}

// kept sets the pass that a right answer has earned a moment ago, if it comes from the same browser again: the caller has
// checked that it comes from where the question was shown.
func (an *answers) kept(q *Request, r *result, at time.Time) bool {
	ctx, cancel := context.WithTimeout(context.Background(), an.patience)
	defer cancel()
	b, err := an.store.Get(ctx, nil, keptKey(&r.key))
	if err != nil {
		return false
	}
	p, ok := spravka.UnpackPass(b)
	if !ok || p.Agent != agentOf(q) && p.Partner == 0 || p.Keyed() && p.Key != r.print {
		return false
	}
	r.pass, r.cookie = p, an.passCookie(q, &p, at)
	return true
}

// repeat gives the pass of a right answer that comes again, and checks nothing else about it.
func (an *answers) repeat(q *Request, p *params, a *Response, at time.Time) {
	k, kd, err := an.issuer.open(q, p.key, at)
	if err != nil || k.channel != channelPage || !an.issuer.answerableBy(q, &k) {
		return
	}
	r := result{key: k, opened: true, print: q.readProof(p.key, p.proof)}
	if right, _ := kd.check(k.secret, p.rep); right && an.kept(q, &r, at) {
		an.addPass(q, a, &r)
	}
}

func agentOf(q *Request) uint64 { return agentOfView(q.View) }

func agentOfView(v *request.View) uint64 { return identity.AgentFamily(v.Get("User-Agent")) }
