package admin

import (
	"bufio"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.yaml.in/yaml/v3"

	"antirobot/alarm"
	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/learn"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
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

func (s *gatewayCalls) alarms(*call) (any, error) {
	all := alarmsBody{Items: []Alarm{}, Webhooks: s.deps.Alarms.Hooks()}
	for _, a := range s.deps.Alarms.Active() {
		all.Items = append(all.Items, Alarm{Alarm: a})
	}
	return all, nil
}

// testAlarms tells every webhook once, and answers what each said.
func (s *gatewayCalls) testAlarms(c *call) (any, error) {
	return struct {
		Webhooks []alarm.HookState `json:"webhooks"`
	}{s.deps.Alarms.Test(c.work, s.now())}, nil
}

// AttackState is the switch "under attack" as the API shows it.
type AttackState struct {
	On    bool      `json:"under-attack"`
	Until time.Time `json:"until,omitzero"`
	// Share of the visitors whom the site does not know that is asked at present, 0 to 1: it grows and falls smoothly.
	Share  float64 `json:"share"`
	Easing bool    `json:"easing,omitempty"` // it falls until then
}

func (s *gatewayCalls) attackState(*call) (any, error) {
	a := s.deps.Attack.UnderAttack()
	return AttackState{On: !a.Until.IsZero(), Until: a.Until.Truncate(time.Second), Share: share(a.Share), Easing: a.Easing}, nil
}

func share(x float64) float64 { return math.Round(x*100) / 100 }

// attack switches on, for the time that is given or as long as the configuration says.
func (s *gatewayCalls) attack(c *call) (any, error) {
	var in struct {
		For string `json:"for"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	var until time.Time
	if in.For != "" {
		d, err := ttlWithin(in.For, min(maxTTL, verdict.MaxAttack))
		if err != nil {
			return nil, badField("for", "%v", err)
		}
		until = s.now().Add(d)
	}
	return s.turn(c, until, true)
}

func (s *gatewayCalls) attackOver(c *call) (any, error) { return s.turn(c, s.now(), false) }

func (s *gatewayCalls) turn(c *call, until time.Time, on bool) (any, error) {
	over, err := s.deps.Attack.Attack(c.work, until)
	if err != nil {
		return nil, changed(err, "the switch")
	}
	s.log.Warn().Bool("on", on).Time("until", over).Msg("under attack, over the api")
	return s.attackState(c)
}

// backup writes a copy of the data directory into a new directory of the gateway's machine.
func (s *gatewayCalls) backup(c *call) (any, error) {
	var q struct {
		Dir string `json:"dir"`
	}
	if err := decode(c.RequestCtx, &q); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(q.Dir) {
		return nil, badField("dir", "%q is no absolute path of a directory to be made", q.Dir)
	}
	if err := s.deps.Gateway.Backup(q.Dir); err != nil {
		return nil, badField("dir", "%.60s: no backup was made: %v", q.Dir, err)
	}
	return map[string]string{"dir": q.Dir}, nil
}

// LearntStory is the card of a service, as JSON shows it.
type LearntStory struct {
	Service  string        `json:"service"`
	Sample   learn.Counts  `json:"sample"`
	Opinion  bool          `json:"opinion"`          // visitors are graded
	Learnt   *learn.Learnt `json:"learnt,omitempty"` // absent: nothing was learnt yet
	Card     string        `json:"card,omitempty"`   // as a file
	Previous bool          `json:"previous"`         // there is a card to roll back to
}

func learntStory(s *learn.State) LearntStory {
	story := LearntStory{Service: s.Service, Sample: s.Sample, Previous: s.Previous}
	if s.Card != nil {
		story.Opinion, story.Learnt, story.Card = s.Card.Opinion(), &s.Card.Learnt, string(s.Card.Text())
	}
	return story
}

func (s *gatewayCalls) learnt(c *call) (any, error) {
	list, err := s.deps.Learning.States(c.work)
	if err != nil {
		return nil, err
	}
	items := make([]LearntStory, 0, len(list))
	for i := range list {
		items = append(items, learntStory(&list[i]))
	}
	return struct {
		Items []LearntStory `json:"items"`
	}{items}, nil
}

// rollBackLearnt puts the previous card of a service back into use.
func (s *gatewayCalls) rollBackLearnt(c *call) (any, error) {
	var in struct {
		Service string `json:"service"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	card, err := s.deps.Learning.RollBack(c.work, in.Service)
	if errors.Is(err, learn.ErrNoCard) {
		return nil, notFound("%.60q has no previous card", in.Service)
	}
	if err != nil {
		return nil, changed(err, "the card")
	}
	s.act(c, journal.Act{What: "learn rollback", Reason: in.Service})
	return learntStory(&learn.State{Service: in.Service, Card: card, Previous: true}), nil
}

// openAPIText describes the API for programs: OpenAPI, as people edit it.
//
//go:embed openapi.yaml
var openAPIText []byte

// openAPI answers with the description of the API. It is read for each call: few ever ask.
func (s *gatewayCalls) openAPI(*call) (any, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIText, &doc); err != nil {
		panic("BUG: openapi.yaml: " + err.Error())
	}
	return doc, nil
}

// events answers with the training log. It is written to a file first, so that an error can still be reported.
func (s *gatewayCalls) events(ctx *call) (_ any, err error) {
	var since time.Time
	if q := string(ctx.QueryArgs().Peek("since")); q != "" {
		if since, err = time.Parse(time.RFC3339, q); err != nil {
			return nil, badField("since", "%q is no time such as 2026-01-02T15:04:05Z", q)
		}
	}
	var unlabelled bool
	switch q := string(ctx.QueryArgs().Peek("unlabelled")); q {
	case "", "false":
	case "true":
		unlabelled = true
	default:
		return nil, badField("unlabelled", "%q is neither true nor false", q)
	}
	f, err := os.CreateTemp("", "antirobot-events-*.csv")
	if err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil { // it lives as long as it is open
		return nil, fmt.Errorf("export events: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	if _, err := s.deps.Training.ExportTraining(w, training.ExportOptions{Unlabelled: unlabelled, Since: since},
		s.now()); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("export events: %w", err)
	}
	ctx.SetContentType("text/csv; charset=utf-8")
	ctx.SetBodyStream(f, int(size)) // closes it
	ctx.acted = true                // it only reads
	return streamed{}, nil
}
