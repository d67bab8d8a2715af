package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/admin/peers"
	"antirobot/alarm"
	"antirobot/captcha/outcomes"
	"antirobot/journal"
	"antirobot/verdict"
)

// What one gateway alone remembers can be asked of all that share its store: with gateways=all, this one asks the
// others, and puts the answers together.

// GatewayState says which gateway was asked, and why there is nothing of it.
type GatewayState struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Config  uint64 `json:"config"` // the pushed configuration that it runs; 0: its own file
	Error   string `json:"error,omitempty"`
}

// gathered is what several gateways answered, this one first.
type gathered struct {
	states []GatewayState
	bodies [][]byte // nil: nothing
}

type reply[T any] struct {
	from string
	own  bool // it is this gateway's
	v    T
}

func replies[T any](g *gathered) (all []reply[T]) {
	for i, body := range g.bodies {
		if body == nil {
			continue
		}
		r := reply[T]{from: g.states[i].Name, own: i == 0}
		if err := json.Unmarshal(body, &r.v); err != nil {
			g.states[i].Error = "its answer can't be read: " + err.Error()
			continue
		}
		all = append(all, r)
	}
	return all
}

// everywhere calls the handler of a route, and asks the other gateways too if the caller wants it and the route allows
// it.
func (s *Server) everywhere(c *call, r *route) (any, error) {
	which := string(c.QueryArgs().Peek("gateways"))
	if which == "" || r.merge == nil {
		return r.handle(c)
	}
	if which != "all" {
		return nil, badField("gateways", "%q is not all", clipped(which))
	}
	if s.deps.Peers == nil {
		return r.handle(c)
	}
	var others []peers.Answer
	var lost error
	target, done := othersTarget(c), make(chan struct{})
	go func() {
		defer close(done)
		others, lost = s.deps.Peers.Ask(c.work, target)
	}()
	own, err := r.handle(c)
	<-done
	var p *problem
	if errors.As(err, &p) && p.status == fasthttp.StatusBadRequest {
		return nil, err
	}
	g, some := s.gather(own, err, others), false
	if lost != nil {
		g.states[0].Error = strings.TrimPrefix(g.states[0].Error+"; "+lost.Error(), "; ")
	}
	for _, b := range g.bodies {
		some = some || b != nil
	}
	if !some {
		return nil, unknownEverywhere(err, g)
	}
	return r.merge(c, g)
}

// othersTarget is what the other gateways are asked: the same, of each alone.
func othersTarget(c *call) string {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	c.QueryArgs().CopyTo(args)
	args.Del("gateways")
	return string(c.URI().PathOriginal()) + "?" + args.String()
}

// gather puts this gateway's own answer before those of the others.
func (s *Server) gather(own any, err error, others []peers.Answer) *gathered {
	g := &gathered{}
	add := func(p peers.Peer, body []byte, problem string) {
		g.states = append(g.states, GatewayState{Name: p.Name, Version: p.Version, Config: p.Config, Error: problem})
		g.bodies = append(g.bodies, body)
	}
	var p *problem
	switch {
	case err == nil:
		text, err := json.Marshal(own)
		if err != nil {
			panic("BUG: an answer of the admin API does not encode: " + err.Error())
		}
		add(s.deps.Peers.Here(), text, "")
	case errors.As(err, &p) && p.status == fasthttp.StatusNotFound:
		add(s.deps.Peers.Here(), nil, "")
	default:
		add(s.deps.Peers.Here(), nil, err.Error())
	}
	for i := range others {
		o := &others[i]
		switch {
		case o.Err != nil:
			add(o.Peer, nil, o.Err.Error())
		case o.Status == fasthttp.StatusOK:
			add(o.Peer, o.Body, "")
		case o.Status == fasthttp.StatusNotFound:
			add(o.Peer, nil, "")
		case o.Status == fasthttp.StatusUnauthorized:
			add(o.Peer, nil, "it does not know this gateway: have both the same keys, and the same time?")
		default:
			add(o.Peer, nil, fmt.Sprintf("it answers %.60s", o.Body))
		}
	}
	return g
}

// unknownEverywhere is the error where no gateway had an answer. It names those that could not be asked.
func unknownEverywhere(err error, g *gathered) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	told := *p
	for _, st := range g.states[1:] {
		if st.Error != "" {
			told.Message += "; the gateway " + st.Name + " did not answer: " + st.Error
		}
	}
	return &told
}

// asker returns the gateway that asks, if it is one; it may put questions of which the answers can be put together.
func (s *Server) asker(ctx *fasthttp.RequestCtx) (Caller, bool) {
	if s.deps.Peers == nil || !ctx.IsGet() {
		return Caller{}, false
	}
	name, ok := s.deps.Peers.Asked(ctx.Request.Header.Peek("Authorization"), string(ctx.RequestURI()))
	return Caller{Name: "gateway " + name, Role: Viewer, gateway: true}, ok
}

// How the answers of several gateways become one.

type journalPage struct {
	journal.Found
	Gateways []GatewayState `json:"gateways,omitempty"`
}

// mergeJournal puts pages in the order of time. It goes no further back than the page that ends first: what lies before
// is on the next one.
func mergeJournal(c *call, g *gathered) (any, error) {
	limit, err := numberArg(string(c.QueryArgs().Peek("limit")), shownJournal, maxJournal)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	page := journalPage{Found: journal.Found{Entries: []journal.Entry{}}}
	for _, r := range replies[journal.Found](g) {
		page.Next, page.Scanned = max(page.Next, r.v.Next), page.Scanned+r.v.Scanned
		if r.v.Reached.After(page.Reached) {
			page.Reached = r.v.Reached
		}
		for _, e := range r.v.Entries {
			e.Gateway = r.from
			page.Entries = append(page.Entries, e)
		}
	}
	page.Entries = slices.DeleteFunc(page.Entries, func(e journal.Entry) bool { return e.ID < page.Next })
	slices.SortStableFunc(page.Entries, func(a, b journal.Entry) int { return strings.Compare(b.ID, a.ID) })
	if len(page.Entries) > limit {
		page.Entries = page.Entries[:limit]
		last := &page.Entries[limit-1]
		page.Next, page.Reached = last.ID, last.At
	}
	page.Gateways = g.states
	return page, nil
}

// toldBody has the entries and the story of one ID.
type toldBody struct {
	Items    []journal.Entry `json:"items"`
	Story    *verdict.Story  `json:"story,omitempty"`
	Gateways []GatewayState  `json:"gateways,omitempty"`
}

func mergeTold(_ *call, g *gathered) (any, error) {
	t := toldBody{Items: []journal.Entry{}}
	for _, r := range replies[toldBody](g) {
		for _, e := range r.v.Items {
			e.Gateway = r.from
			t.Items = append(t.Items, e)
		}
		if t.Story == nil {
			t.Story = r.v.Story
		}
	}
	t.Gateways = g.states
	return t, nil
}

// mergeDecision takes the story of the gateway that remembers it.
func mergeDecision(_ *call, g *gathered) (any, error) {
	i := slices.IndexFunc(g.bodies, func(b []byte) bool { return b != nil })
	return json.RawMessage(g.bodies[i]), nil // everywhere calls this where there is one
}

// mergeTop adds up what each counted. A name that is in no list of the longest ones is left out, as it is of one
// gateway.
func mergeTop(c *call, g *gathered) (any, error) {
	limit, err := numberArg(string(c.QueryArgs().Peek("limit")), shownRecent, maxPage)
	if err != nil {
		return nil, badField("limit", "%s", err.Error())
	}
	var top topBody
	for i, r := range replies[topBody](g) {
		if i == 0 {
			top = r.v
			continue
		}
		top.Items = addCounts(top.Items, r.v.Items)
		for k := range min(len(top.More), len(r.v.More)) {
			top.More[k].Items = addCounts(top.More[k].Items, r.v.More[k].Items)
		}
	}
	top.Items = mostOf(top.Items, limit)
	for k := range top.More {
		top.More[k].Items = mostOf(top.More[k].Items, limit)
	}
	top.Gateways = g.states
	return top, nil
}

func addCounts(to, more []journal.Count) []journal.Count {
	for _, m := range more {
		i := slices.IndexFunc(to, func(c journal.Count) bool { return c.Name == m.Name })
		if i < 0 {
			to = append(to, m)
			continue
		}
		to[i].Entries += m.Entries
		to[i].Weight += m.Weight
	}
	return to
}

func mostOf(all []journal.Count, limit int) []journal.Count {
	slices.SortStableFunc(all, func(a, b journal.Count) int { return cmp.Compare(b.Weight, a.Weight) })
	return append([]journal.Count{}, all[:min(len(all), limit)]...)
}

// figuresBody has counts in steps of time.
type figuresBody struct {
	By    string            `json:"by"`
	Items []journal.Figures `json:"items"`
	// the most frequent values among requests that were not simply human, if requested
	Stopped  journal.Stopped `json:"stopped,omitempty"`
	Gateways []GatewayState  `json:"gateways,omitempty"`
}

func mergeFigures(_ *call, g *gathered) (any, error) {
	sum := figuresBody{Items: []journal.Figures{}, Stopped: journal.Stopped{}}
	at := map[time.Time]map[string]float64{}
	for _, r := range replies[figuresBody](g) {
		sum.By = r.v.By
		for by, counts := range r.v.Stopped {
			sum.Stopped[by] = mostOf(addCounts(sum.Stopped[by], counts), max(len(sum.Stopped[by]), len(counts)))
		}
		for _, f := range r.v.Items {
			have := at[f.At.UTC()]
			if have == nil {
				at[f.At.UTC()] = f.Counts
				sum.Items = append(sum.Items, journal.Figures{At: f.At.UTC(), Counts: f.Counts})
				continue
			}
			for name, n := range f.Counts {
				have[name] += n
			}
		}
	}
	slices.SortFunc(sum.Items, func(a, b journal.Figures) int { return a.At.Compare(b.At) })
	sum.Gateways = g.states
	return sum, nil
}

// subjectBody has the parts of a subject that merging needs.
type subjectBody struct {
	Subject   string          `json:"subject"`
	Bans      json.RawMessage `json:"bans"`
	Entries   json.RawMessage `json:"entries,omitempty"`
	Exempt    bool            `json:"exempt,omitempty"`
	Allowance json.RawMessage `json:"allowance,omitempty"`
	Session   json.RawMessage `json:"session,omitempty"`
	Gateway   string          `json:"gateway,omitempty"` // whose session it is
	Gateways  []GatewayState  `json:"gateways,omitempty"`
}

// mergeSubject takes the session of the gateway that saw the subject last; bans and passes are in the store that all
// share.
func mergeSubject(_ *call, g *gathered) (any, error) {
	var is subjectBody
	var last time.Time
	for i, r := range replies[subjectBody](g) {
		if i == 0 {
			is = r.v
			is.Session = nil
		}
		var seen struct {
			Last time.Time `json:"last"`
		}
		if len(r.v.Session) > 0 && json.Unmarshal(r.v.Session, &seen) == nil &&
			(is.Session == nil || seen.Last.After(last)) {
			is.Session, is.Gateway, last = r.v.Session, r.from, seen.Last
		}
	}
	is.Gateways = g.states
	return is, nil
}

// Challenges is what became of the challenges of late, on one gateway or on all that answered.
type Challenges struct {
	outcomes.Challenges
	Gateways []GatewayState `json:"gateways,omitempty"`
}

func mergeChallenges(_ *call, g *gathered) (any, error) {
	var all []outcomes.Challenges
	for _, r := range replies[outcomes.Challenges](g) {
		all = append(all, r.v)
	}
	return Challenges{outcomes.Sum(all), g.states}, nil
}

// statusBody is how a gateway is; of several, how this one is, and how the others are.
type statusBody struct {
	statusOf
	Gateways []GatewayState `json:"gateways,omitempty"`
	Others   []statusOf     `json:"others,omitempty"`
}

func mergeStatus(_ *call, g *gathered) (any, error) {
	var is statusBody
	for _, r := range replies[statusOf](g) {
		if r.v.Gateway = r.from; r.own {
			is.statusOf = r.v
			continue
		}
		is.Others = append(is.Others, r.v)
	}
	is.Gateways = g.told()
	return is, nil
}

// told returns the states of the gateways, where those that had no answer say so: a version before this one does not
// tell it.
func (g *gathered) told() []GatewayState {
	for i := range g.states {
		if g.bodies[i] == nil && g.states[i].Error == "" {
			g.states[i].Error = "it does not tell that; is it of another version?"
		}
	}
	return g.states
}

type alarmsBody struct {
	Items    []Alarm           `json:"items"`
	Webhooks []alarm.HookState `json:"webhooks"`
	Gateways []GatewayState    `json:"gateways,omitempty"`
}

// Alarm is an alarm, and of several gateways who raise it. What is the same is said by the one that has known it
// longest.
type Alarm struct {
	alarm.Alarm
	Gateways []AlarmOf `json:"gateways,omitempty"`
}

// AlarmOf is a gateway that raises an alarm.
type AlarmOf struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // how much there, or why
}

func mergeAlarms(_ *call, g *gathered) (any, error) {
	all := alarmsBody{Items: []Alarm{}, Webhooks: []alarm.HookState{}}
	for _, r := range replies[alarmsBody](g) {
		for _, a := range r.v.Items {
			all.add(a.Alarm, r.from)
		}
		if r.own { // a test uses the webhooks of this gateway
			all.Webhooks = r.v.Webhooks
		}
	}
	slices.SortStableFunc(all.Items, func(a, b Alarm) int { return a.Since.Compare(b.Since) })
	all.Gateways = g.told()
	return all, nil
}

// add adds an alarm of a gateway to the others of the same trouble.
func (b *alarmsBody) add(a alarm.Alarm, from string) {
	i := slices.IndexFunc(b.Items, func(o Alarm) bool { return o.Name == a.Name && o.About == a.About })
	if i < 0 {
		i, b.Items = len(b.Items), append(b.Items, Alarm{Alarm: a})
	}
	if a.Since.Before(b.Items[i].Since) {
		b.Items[i].Alarm = a
	}
	b.Items[i].Gateways = append(b.Items[i].Gateways, AlarmOf{from, a.Value})
}
