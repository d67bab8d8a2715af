package admin

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"antirobot/captcha/outcomes"
	"antirobot/journal"
	"antirobot/verdict"
)

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
