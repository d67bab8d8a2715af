package processor

import (
	"math"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// SessionView is a session as JSON shows it.
type SessionView struct {
	First      time.Time    `json:"first"`
	Last       time.Time    `json:"last"`
	Pages      uint32       `json:"pages"`
	Parts      uint32       `json:"parts"` // sub-resources
	Claim      string       `json:"claims_to_be"`
	Version    uint16       `json:"claimed_version,omitempty"`
	Evaluated  *time.Time   `json:"evaluated,omitempty"`
	Score      float32      `json:"score"` // of the last evaluation
	Model      string       `json:"model,omitempty"`
	Bans       int          `json:"bans"`
	LastBan    *time.Time   `json:"last_ban_until,omitempty"`
	Repeated   int          `json:"repeated,omitempty"` // consecutive bans, by which the next one grows
	Challenges Challenges   `json:"challenges"`
	Factors    []FactorView `json:"factors"` // the known ones, without the company of its User-Agent, shape and handshake
}

// Challenges is what happened at the captcha.
type Challenges struct {
	Shown   int `json:"shown"`
	Solved  int `json:"solved"`
	Failed  int `json:"failed"`
	Ignored int `json:"ignored"`
}

// FactorView is one factor of a session.
type FactorView struct {
	Name   string  `json:"name"`
	Group  Group   `json:"group"`
	Value  float32 `json:"value"`
	Amount float32 `json:"amount,omitempty"` // what it adds to the score under the current formula, in log-odds
}

// Session returns what is known of a subject at a given time; false if there is no session.
func (p *Processor) Session(sub identity.Subject, at time.Time) (SessionView, bool) {
	sh, h := p.sessions.Lock(sub)
	var s session
	known := sh.Find(h, sub)
	if known != nil {
		s = *known
	}
	sh.Unlock()
	if known == nil {
		return SessionView{}, false
	}
	s.fade(at)
	unix := func(sec uint32) *time.Time {
		if sec == 0 {
			return nil
		}
		t := time.Unix(int64(sec), 0).UTC()
		return &t
	}
	view := SessionView{
		First: *unix(s.first), Last: *unix(s.last), Pages: s.pages, Parts: s.parts, Claim: s.claim.Family.String(), Version: s.claim.Major,
		Evaluated: unix(s.evalAt), Score: s.score, Bans: int(s.bans), LastBan: unix(s.lastBan.until), Repeated: int(s.lastBan.offences),
		Challenges: Challenges{Shown: int(s.shown), Solved: int(s.solved), Failed: int(s.failed), Ignored: int(s.ignored)},
	}
	p.viewFactors(&view, sub, &s, at)
	return view, true
}

// viewFactors adds the factors that are known without an event of the subject.
func (p *Processor) viewFactors(view *SessionView, sub identity.Subject, s *session, at time.Time) {
	e := &verdict.Event{At: at, N: 1}
	e.Subjects[0] = sub
	e.Claim, e.Headers, e.Misfits, e.IAge, e.Partial = s.claim, s.headers, s.misfits, s.iAge, s.flags&flagPartial != 0
	if e.Software = s.software; s.flags&flagHello != 0 {
		e.JA4 = 1
	}
	e.Cookies = client.Cookies(0)
	if s.headers&client.HasCookie != 0 {
		e.Cookies = client.CookieAny
	}
	v := p.vectors.Get().(*vector)
	defer p.vectors.Put(v)
	v.scene = evidence{e: e, s: *s, usual: nan}
	v.scene.t = p.trailOf(sub)
	if sub.Kind == identity.KindIP {
		v.scene.settled = p.keeper.KnownAt(sub.ID)
	}
	x := v.measure(false)
	v.scene.e = nil
	var amounts []float32
	if m := p.formula.Model(); m != nil {
		amounts = m.Explain(v.amounts[:], x)
		view.Model = m.Version()
	}
	for i := range factors {
		if f := float64(x[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		f := FactorView{Name: factors[i].Name, Group: factors[i].Group, Value: x[i]}
		if amounts != nil {
			f.Amount = amounts[i]
		}
		view.Factors = append(view.Factors, f)
	}
}

// Forget forgets what memory knows of a subject. It looks at everybody, so it is for operators.
func (p *Processor) Forget(sub identity.Subject) {
	p.sessions.Sweep(func(k identity.Subject, _ *session) bool { return k == sub })
	p.trails.Sweep(func(k identity.Subject, _ *trail) bool { return k == sub })
	p.paces.Table.Sweep(func(k paceKey, _ *pace) bool { return k.kind == sub.Kind && k.id == sub.ID })
}
