package admin

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a caller may have kept.
const (
	maxReason  = 500 // bytes
	maxSubject = 512
)

// listed is one page of anything.
type listed[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // ?after= of the next page
}

func (s *Server) listBans(c *call) (any, error) {
	if s.deps.Bans == nil {
		return nil, absentPart("the table of bans")
	}
	p, err := newPage[Ban](c)
	if err != nil {
		return nil, err
	}
	args := c.QueryArgs()
	subject, service := string(args.Peek("subject")), string(args.Peek("service"))
	s.deps.Bans.EachBan(func(b Ban) bool {
		if (subject == "" || b.Subject == subject) && (service == "" || b.Service == service) {
			p.offer(b.Subject+"\x00"+b.Service+"\x00"+b.Source, b)
		}
		return true
	})
	items, next := p.take()
	return listed[Ban]{items, next}, nil
}

func (s *Server) makeBan(c *call) (any, error) {
	if s.deps.Bans == nil {
		return nil, absentPart("the table of bans")
	}
	var in struct {
		Subject string `json:"subject"`
		TTL     string `json:"ttl"`
		Reason  string `json:"reason"`
		Service string `json:"service"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	if err := checkSubject("subject", in.Subject); err != nil {
		return nil, err
	}
	if in.TTL == "" {
		return nil, badField("ttl", "say how long the ban lasts, for example 10m or 7d")
	}
	until, err := s.until(in.TTL)
	if err != nil {
		return nil, err
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	b, err := s.deps.Bans.Ban(c.work, Ban{
		Subject: in.Subject, Service: in.Service, Source: "api", Reason: in.Reason, Made: s.second(), Until: until,
	})
	if err != nil {
		return nil, err
	}
	s.log.Info().Str("subject", b.Subject).Str("service", b.Service).Time("until", b.Until).Str("reason", b.Reason).Msg("ban made over the api")
	return b, nil
}

func (s *Server) liftBan(c *call) (any, error) {
	if s.deps.Bans == nil {
		return nil, absentPart("the table of bans")
	}
	subject, service := string(c.QueryArgs().Peek("subject")), string(c.QueryArgs().Peek("service"))
	if err := checkSubject("subject", subject); err != nil {
		return nil, err
	}
	was, err := s.deps.Bans.Lift(c.work, subject, service)
	if err != nil {
		return nil, err
	}
	if !was {
		where := "everywhere; bans on one service need ?service="
		if service != "" {
			where = "on service " + service
		}
		return nil, notFound("%s has no ban that holds %s", subject, where)
	}
	s.log.Info().Str("subject", subject).Str("service", service).Msg("ban lifted over the api")
	return struct {
		Lifted  string `json:"lifted"`
		Service string `json:"service,omitempty"`
	}{subject, service}, nil
}

// until turns a ttl of the caller into a time, in whole seconds.
func (s *Server) until(ttl string) (time.Time, error) {
	d, err := ttlWithin(ttl, s.cfg.MaxTTL)
	if err != nil {
		return time.Time{}, badField("ttl", "%v", err)
	}
	return s.second().Add(d), nil
}

// second is the present time as the API shows times: UTC, whole seconds.
func (s *Server) second() time.Time { return s.now().UTC().Truncate(time.Second) }

// checkSubject holds a subject to the form kind:id; the part that owns it checks the rest.
func checkSubject(field, subject string) error {
	kind, id, ok := strings.Cut(subject, ":")
	if !ok || kind == "" || id == "" {
		return badField(field, "name a subject as kind:id, for example ip:203.0.113.7; kinds are spravka, L, fuid, i, service and ip")
	}
	if len(subject) > maxSubject {
		return badField(field, "a subject has at most %d bytes", maxSubject)
	}
	return nil
}

// checkReason keeps what later stands in logs and consoles short and on one line.
func checkReason(reason string) error {
	if len(reason) > maxReason {
		return badField("reason", "a reason has at most %d bytes", maxReason)
	}
	if !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return badField("reason", "a reason is one line of text")
	}
	return nil
}
