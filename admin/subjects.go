package admin

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/message/queue"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/label"
	"antirobot/verdict/words"
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

// revokeCampaign takes back what a campaign has earned until now: a network, a /24 or /48, and the hash of a kind of
// browser there as the outcomes of challenges name it; without the latter what anybody in the network has earned.
func (s *subjectCalls) revokeCampaign(c *call, name string) (any, error) {
	n, agent, ok := parseCampaign(name)
	if !ok {
		return nil, badField("campaign", "%q is neither a network, such as 198.51.100.0/24 or 2001:db8:1::/48, nor "+
			"the name of a campaign as /api/challenges gives it", name)
	}
	at := s.now()
	if err := s.deps.Passes.RevokeCampaign(c.work, n, agent, at); err != nil {
		return nil, changed(err, "the revocation")
	}
	s.act(c, journal.Act{What: "revoke", Reason: "all passes of the campaign " + name})
	return struct {
		Campaign string `json:"revoked_campaign"`
	}{name}, nil
}

// parseCampaign reads the name of a campaign, or a network alone: agent is then 0, and stands for every browser. Of a
// shape, the network is the zero Prefix.
func parseCampaign(name string) (n netip.Prefix, agent uint64, ok bool) {
	network, browser, named := strings.Cut(name, " ")
	if network == "shape" {
		agent, err := strconv.ParseUint(browser, 16, 64)
		return netip.Prefix{}, agent, err == nil && len(browser) == 16 && agent != 0
	}
	n, err := netip.ParsePrefix(network)
	if err != nil || n != n.Masked() || n != identity.NetOf(n.Addr()) {
		return netip.Prefix{}, 0, false
	}
	if !named {
		return n, 0, true
	}
	agent, err = strconv.ParseUint(browser, 16, 64)
	return n, agent, err == nil && len(browser) == 16 && agent != 0
}

// LabelStory is a label as JSON shows it.
type LabelStory struct {
	Subject string    `json:"subject"`
	Label   string    `json:"label"`
	Source  string    `json:"source"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

func storyOf(e *label.Entry) LabelStory {
	return LabelStory{e.Subject.String(), e.Label.String(), e.Source.String(), e.At.UTC(), e.Reason}
}

// listLabels shows the labels in the order of their subjects. One walk at a time: it copies the table.
func (s *subjectCalls) listLabels(c *call) (any, error) {
	p, err := newPage[LabelStory](c)
	if err != nil {
		return nil, err
	}
	s.walk.Lock()
	defer s.walk.Unlock()
	all := s.deps.Labels.Labels()
	for i := range all {
		story := storyOf(&all[i])
		p.offer(story.Subject, story)
	}
	items, next := p.take()
	return listed[LabelStory]{items, next}, nil
}

func (s *subjectCalls) setLabel(c *call) (any, error) {
	var in struct {
		Subject string `json:"subject"`
		Request string `json:"request"`
		Label   string `json:"label"`
		Reason  string `json:"reason"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	e := label.Entry{Mark: label.Mark{Source: label.Operator}, At: s.second(), Reason: in.Reason}
	var err error
	if e.Subject, err = s.labelledSubject(in.Subject, in.Request); err != nil {
		return nil, err
	}
	var ok bool
	if e.Label, ok = label.Parse(in.Label); !ok {
		return nil, badField("label", "%.60q is neither human nor robot", in.Label)
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	if err := s.deps.Labels.Label(c.work, e); err != nil {
		return nil, labelKept(err)
	}
	s.act(c, journal.Act{What: "label " + e.Label.String(), Subject: e.Subject.String(), Reason: e.Reason})
	return storyOf(&e), nil
}

func (s *subjectCalls) removeLabel(c *call) (any, error) {
	sub, err := s.labelledSubject(string(c.QueryArgs().Peek("subject")), string(c.QueryArgs().Peek("request")))
	if err != nil {
		return nil, err
	}
	had, err := s.deps.Labels.Unlabel(c.work, sub, s.second())
	if err != nil {
		return nil, labelKept(err)
	}
	if !had {
		return nil, notFound("%s has no label", sub)
	}
	s.act(c, journal.Act{What: "unlabel", Subject: sub.String()})
	return struct {
		Removed string `json:"removed"`
	}{sub.String()}, nil
}

// labelledSubject returns the subject that is named, or to which a request of late was charged.
func (s *subjectCalls) labelledSubject(subject, rid string) (identity.Subject, error) {
	switch {
	case subject != "" && rid != "":
		return identity.Subject{}, badField("request", "give either a subject or a request")
	case subject != "":
		return subjectIn("subject", subject)
	case rid == "":
		return identity.Subject{}, badField("subject", "say who: a subject such as ip:203.0.113.7, or the ID of a "+
			"request")
	}
	id, ok := request.ParseID(rid)
	if !ok {
		return identity.Subject{}, badField("request", "%.60q is no request ID: it has 26 letters and digits", rid)
	}
	if s.deps.Decisions == nil {
		return identity.Subject{}, absentPart("the memory of decisions")
	}
	story, known := s.deps.Decisions.Get(id)
	if !known || story.Subject == "" {
		return identity.Subject{}, notFound("the request %s is not remembered: name the subject",
			id)
	}
	return subjectIn("request", story.Subject)
}

// labelKept turns the error of a label that could not be kept into a response.
func labelKept(err error) error {
	if errors.Is(err, label.ErrFull) {
		return &problem{status: statusFull, Code: "full", Message: err.Error() + "; remove some"}
	}
	return changed(err, "the label")
}

// erased is how much of a subject was erased, where.
type erased struct {
	Subject string `json:"subject"`
	Entries int    `json:"entries"` // of the journal
	Bans    int    `json:"bans"`
	Labels  int    `json:"labels"`
	Queued  int    `json:"queued"` // messages of the queue
}

// eraseSubject forgets a subject: its entries in the journal, bans, label, standing and session, and its messages in
// the queue. What can't be erased is said; the rest is erased all the same.
func (s *subjectCalls) eraseSubject(c *call) (any, error) {
	sub, err := subjectIn("subject", c.arg)
	if err != nil {
		return nil, err
	}
	out := erased{Subject: sub.String()}
	err = errors.Join(s.eraseRemembered(c, sub, &out), s.eraseKept(c, sub, &out))
	if s.deps.Forget != nil {
		err = errors.Join(err, s.deps.Forget(c.work, sub))
	}
	if err != nil {
		return nil, &problem{
			status: statusUnavailable, Code: "not_durable", Errors: flatten(err),
			Message: "not everything could be erased; ask again: " + err.Error(),
		}
	}
	// whose, is not to be kept
	s.act(c, journal.Act{What: "erase", Reason: words.Sprintf(words.English,
		"%d {entry|entries}, %d {ban|bans}, %d {message|messages} of a subject", out.Entries, out.Bans, out.Queued)})
	return out, nil
}

// eraseRemembered erases entries of the journal and messages of the queue.
func (s *subjectCalls) eraseRemembered(c *call, sub identity.Subject, out *erased) (err error) {
	if s.deps.Journal != nil {
		if out.Entries, err = s.deps.Journal.Erase(c.work, sub.String()); err != nil {
			err = fmt.Errorf("the journal: %w", err)
		}
	}
	if s.deps.Queue == nil {
		return err
	}
	n, e := s.deps.Queue.EraseAll(c.work, queue.Filter{Sender: sub.String()})
	out.Queued = n
	if e != nil {
		err = errors.Join(err, fmt.Errorf("the queue: %w", e))
	}
	return err
}

// eraseKept erases bans and the label.
func (s *subjectCalls) eraseKept(c *call, sub identity.Subject, out *erased) (err error) {
	if s.deps.Bans != nil {
		if out.Bans, err = s.deps.Bans.Unban(c.work, sub, "*"); err != nil {
			err = fmt.Errorf("its bans: %w", err)
		}
	}
	if s.deps.Labels == nil {
		return err
	}
	had, e := s.deps.Labels.Unlabel(c.work, sub, s.second())
	if had {
		out.Labels = 1
	}
	if e != nil {
		err = errors.Join(err, fmt.Errorf("its label: %w", e))
	}
	return err
}
