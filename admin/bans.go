package admin

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// maxReason bounds the text that says why, in bytes.
const maxReason = 500

type listed[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // ?after= of the next page
}

// subjectCalls are calls about subjects: bans, labels, passes, and all that is known of one.
type subjectCalls struct{ *api }

// listBans shows the live bans in the order of their subjects. One walk at a time: it copies the table.
func (s *subjectCalls) listBans(c *call) (any, error) {
	p, err := newPage[bans.Ban](c)
	if err != nil {
		return nil, err
	}
	var f verdict.BanFilter
	if q := string(c.QueryArgs().Peek("subject")); q != "" {
		if f.Subject, err = subjectIn("subject", q); err != nil {
			return nil, err
		}
	}
	f.Service = string(c.QueryArgs().Peek("service"))
	s.walk.Lock()
	defer s.walk.Unlock()
	for _, b := range s.deps.Bans.Bans(f) {
		p.offer(b.Subject.String()+"\x00"+b.Service+"\x00"+b.Source.String(), b)
	}
	rows, next := p.take()
	return listed[*bans.Story]{stories(rows), next}, nil
}

func stories(list []bans.Ban) []*bans.Story {
	out := make([]*bans.Story, len(list))
	for i := range list {
		out[i] = list[i].Story()
	}
	return out
}

func (s *subjectCalls) makeBan(c *call) (any, error) {
	var in struct {
		Subject string `json:"subject"`
		TTL     string `json:"ttl"`
		Reason  string `json:"reason"`
		Service string `json:"service"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	b := bans.Ban{Source: bans.SourceAPI, Reason: in.Reason, Service: in.Service, Made: s.second()}
	var err error
	if b.Subject, err = subjectIn("subject", in.Subject); err != nil {
		return nil, err
	}
	if in.TTL == "" {
		return nil, badField("ttl", "say how long the ban lasts, for example 10m or 7d")
	}
	ttl, err := s.ttl(in.TTL)
	if err != nil {
		return nil, err
	}
	b.Until = b.Made.Add(ttl)
	if err := errors.Join(checkReason(in.Reason), s.checkService(in.Service)); err != nil {
		return nil, err
	}
	if err := b.Validate(b.Made); err != nil {
		return nil, badField("", "%v", err)
	}
	if err := s.deps.Bans.Ban(c.work, b); err != nil {
		return nil, changed(err, "the ban")
	}
	s.act(c, journal.Act{What: "ban", Subject: b.Subject.String(), Service: b.Service, Reason: b.Reason, TTL: in.TTL})
	return b.Story(), nil
}

func (s *subjectCalls) liftBan(c *call) (any, error) {
	subject, service := string(c.QueryArgs().Peek("subject")), string(c.QueryArgs().Peek("service"))
	sub, err := subjectIn("subject", subject)
	if err != nil {
		return nil, err
	}
	n, err := s.deps.Bans.Unban(c.work, sub, service)
	if err != nil {
		return nil, changed(err, "the end of the ban")
	}
	if n == 0 {
		which := "ban on the service " + service
		switch service {
		case "":
			which = "ban that holds for all services; ?service=NAME lifts the ban on one service, ?service=* every one"
		case "*":
			which = "ban"
		}
		return nil, notFound("%s has no %s", subject, which)
	}
	s.act(c, journal.Act{What: "unban", Subject: sub.String(), Service: service})
	return struct {
		Subject string `json:"subject"`
		Service string `json:"service,omitempty"`
		Lifted  int    `json:"lifted"`
	}{sub.String(), service, n}, nil
}

func subjectIn(field, text string) (identity.Subject, error) {
	sub, err := identity.ParseSubject(text)
	if err != nil {
		return sub, badField(field, "%v; write ip:203.0.113.7, spravka:HEX, i:HEX, L:TEXT, auth:#HEX, fuid:TEXT or service:NAME=VALUE", err)
	}
	return sub, nil
}

// ttl reads a ttl of the caller, within its bounds.
func (*api) ttl(text string) (time.Duration, error) {
	d, err := ttlWithin(text, maxTTL)
	if err != nil {
		return 0, badField("ttl", "%v", err)
	}
	return d, nil
}

// second is the present time as the API shows times: UTC, whole seconds.
func (s *api) second() time.Time { return s.now().UTC().Truncate(time.Second) }

// checkReason keeps what will appear in logs and consoles short and on one line.
func checkReason(reason string) error {
	if len(reason) > maxReason {
		return badField("reason", "a reason has at most %d bytes", maxReason)
	}
	if !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return badField("reason", "a reason is one line of text")
	}
	return nil
}

// checkService refuses the name of a service that is not configured: a ban on it would stop nobody.
func (s *api) checkService(name string) error {
	if name == "" || s.deps.Gateway == nil {
		return nil
	}
	var names []string
	for _, v := range s.deps.Gateway.Services() {
		names = append(names, v.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return badField("service", "there is no service %q; there are: %s", name, strings.Join(names, ", "))
}

// changed turns the error of a change that was made on this node but could not be stored into a response.
func changed(err error, what string) error {
	if errors.Is(err, bans.ErrFull) {
		return &problem{status: statusFull, Code: "full", Message: err.Error() + "; raise the bound in the configuration or remove something"}
	}
	return &problem{
		status: statusUnavailable, Code: "not_durable",
		Message: what + " is in force on this node, but the store failed and a restart may forget it; the write is repeated: " + err.Error(),
	}
}
