package admin

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/processor"
)

// longestPass is the longest lifetime that can be configured for a pass: a revocation is kept for that long, whatever
// the configuration says when the pass is used.
const longestPass = 400 * 24 * time.Hour

// Statuses that more than one handler uses.
const (
	statusFull        = fasthttp.StatusInsufficientStorage
	statusUnavailable = fasthttp.StatusServiceUnavailable
)

type statusOf struct {
	Gateway  string          `json:"gateway,omitempty"`
	Version  string          `json:"version"`
	Started  time.Time       `json:"started,omitzero"`
	Uptime   float64         `json:"uptime_seconds"`
	Ready    bool            `json:"ready"`
	Checks   []Check         `json:"checks"`
	Services []ServiceStatus `json:"services"`
	Lists    *listsView      `json:"lists,omitempty"`
	Store    *StoreHealth    `json:"store,omitempty"`
	Stream   *StreamHealth   `json:"stream,omitempty"`
}

type gatewayCalls struct{ *api }

func (s *gatewayCalls) status(*call) (any, error) {
	a := statusOf{
		Version: s.deps.Version, Started: s.deps.Started.UTC(),
		Uptime: s.uptime().Round(time.Millisecond).Seconds(), Services: []ServiceStatus{},
	}
	a.Checks, a.Ready = s.checks()
	if s.deps.Gateway != nil {
		a.Services = append(a.Services, s.deps.Gateway.Services()...)
	}
	if s.deps.Lists != nil {
		v := s.lists()
		a.Lists = &v
	}
	if s.deps.Gateway != nil {
		st := s.deps.Gateway.Store()
		a.Store = &st
		a.Stream = s.deps.Gateway.Stream()
	}
	return a, nil
}

func (s *gatewayCalls) reload(c *call) (any, error) {
	from := s.now()
	restart, err := s.deps.Gateway.Reload(c.work)
	if err != nil {
		return nil, &problem{
			status: fasthttp.StatusUnprocessableEntity, Code: "config_invalid", Errors: flatten(err),
			Message: "the configuration was not applied and the old one goes on; mend what errors lists and reload " +
				"again",
		}
	}
	return struct {
		Reloaded    bool     `json:"reloaded"`
		Took        float64  `json:"took_seconds"`
		NeedRestart []string `json:"need_restart"`
	}{true, s.now().Sub(from).Round(time.Millisecond).Seconds(), append([]string{}, restart...)}, nil
}

func (s *subjectCalls) revoke(c *call) (any, error) {
	var in struct {
		Pass     string `json:"pass"`
		Before   string `json:"before"`
		Campaign string `json:"campaign"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	type answer struct {
		Pass   string    `json:"revoked_pass,omitempty"`
		Before time.Time `json:"revoked_before,omitzero"`
	}
	switch {
	case in.Campaign != "" && in.Pass == "" && in.Before == "":
		return s.revokeCampaign(c, in.Campaign)
	case (in.Pass == "") == (in.Before == "") || in.Campaign != "":
		return nil,
			badField("pass",
				`give one of {"pass":"<hex id>"}, {"before":"2026-01-02T15:04:05Z"} and {"campaign":"198.51.100.0/24"}`)
	case in.Pass != "":
		in.Pass = strings.TrimPrefix(in.Pass, "spravka:") // as decisions and logs print it
		var id [16]byte
		if n, err := hex.Decode(id[:], []byte(in.Pass[:min(len(in.Pass), 32)])); err != nil || n != 16 ||
			len(in.Pass) != 32 {
			return nil, badField("pass", "the ID of a pass is 32 hex digits, as the logs and subjects print it")
		}
		if err := s.deps.Passes.RevokePass(c.work, id, longestPass); err != nil {
			return nil, changed(err, "the revocation")
		}
		s.act(c, journal.Act{What: "revoke", Subject: "spravka:" + hex.EncodeToString(id[:])})
		return answer{Pass: hex.EncodeToString(id[:])}, nil
	}
	t, err := time.Parse(time.RFC3339, in.Before)
	if err != nil {
		return nil, badField("before", "%q is no time of RFC 3339 such as 2026-01-02T15:04:05Z", in.Before)
	}
	if t.After(s.now()) {
		return nil, badField("before", "%s lies in the future: passes that are earned until then would be worthless "+
			"when they are made", in.Before)
	}
	if err := s.deps.Passes.RevokePassesBornBefore(c.work, t); err != nil {
		return nil, changed(err, "the revocation")
	}
	s.act(c, journal.Act{What: "revoke", Reason: "all passes before " + in.Before})
	return answer{Before: t.UTC()}, nil
}

func (s *subjectCalls) decision(c *call) (any, error) {
	id, ok := request.ParseID(c.arg)
	if !ok {
		return nil, badField("request-id", "%q is not a request id: it has 26 letters and digits, as the header "+
			"X-Request-Id shows them", c.arg)
	}
	d, ok := s.deps.Decisions.Get(id)
	if ok {
		return s.traced(&d), nil
	}
	if s.deps.Journal != nil {
		t, found, err := s.deps.Journal.Get(id)
		if err != nil {
			return nil, err
		}
		if found && t.Story != nil {
			return s.traced(t.Story), nil
		}
	}
	if !ok {
		return nil, notFound("no decision with request id %s is remembered here: it is too long ago, or of another "+
			"node; the log may have it", id)
	}
	return d, nil
}

// traced adds to a story where people look at its trace; nil stays nil.
func (s *api) traced(d *verdict.Story) *verdict.Story {
	if d != nil && d.Trace != "" {
		d.TracePage = strings.ReplaceAll(s.deps.TracePage, "{trace}", d.Trace)
	}
	return d
}

func (s *subjectCalls) subject(c *call) (any, error) {
	sub, err := subjectIn("subject", c.arg)
	if err != nil {
		return nil, err
	}
	a := struct {
		Subject   string                 `json:"subject"`
		Bans      []*bans.Story          `json:"bans"`
		Entries   []Naming               `json:"entries,omitempty"`
		Exempt    bool                   `json:"exempt,omitempty"`
		Allowance *Allowance             `json:"allowance,omitempty"`
		Session   *processor.SessionView `json:"session,omitempty"`
	}{Subject: sub.String(), Bans: []*bans.Story{}}
	if s.deps.Bans != nil {
		a.Bans = stories(s.deps.Bans.Bans(verdict.BanFilter{Subject: sub}))
	}
	if s.deps.Lists != nil {
		a.Entries = s.naming(sub)
	}
	if s.deps.Passes != nil && sub.Kind == identity.KindSpravka {
		if v, ok := s.deps.Passes.Allowance(sub.ID); ok {
			a.Allowance = (*Allowance)(&v)
		}
	}
	if s.deps.Sessions != nil {
		if v, ok := s.deps.Sessions.Session(sub, s.now()); ok {
			a.Session = &v
		}
		if addr, ok := sub.Addr(); ok {
			a.Exempt = s.deps.Sessions.Spares(addr)
		}
	}
	return a, nil
}

func (s *gatewayCalls) challenges(*call) (any, error) {
	return s.deps.Challenges(), nil
}
