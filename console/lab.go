package console

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"antirobot/admin"
	"antirobot/lab"
)

const (
	longestText  = 256 << 10 // bytes of rules or of a card in a form
	shownLimits  = 4
	formWeight   = "w" // before the number of a weight
	weightChange = 0.005
)

// labForm is what the lab's form holds.
type labForm struct {
	Service, Since, Threshold, Unsure, Rules, Model, Card string

	Limits  [shownLimits]limitForm
	Weights map[int]float64
}

// limitForm is a line of the form; an empty one is no limit.
type limitForm struct{ Window, Requests, Ban string }

// formOf returns what the form shows for a service.
func formOf(v *lab.View, s *lab.ServiceView) *labForm {
	f := &labForm{Service: s.Name, Since: "3d", Threshold: text(s.Threshold), Unsure: text(s.Unsure), Rules: s.Rules, Weights: map[int]float64{}}
	for i, l := range s.Limits[:min(len(s.Limits), shownLimits)] {
		f.Limits[i] = limitForm{l.Window, strconv.Itoa(l.Requests), l.Ban}
	}
	for i := range v.Weights {
		f.Weights[i] = v.Weights[i].Value
	}
	return f
}

func text(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// readLab reads a form that was sent.
func (v *visit) readLab(now *labForm) *labForm {
	args := v.ctx.PostArgs()
	field := func(name string, most int) string {
		b := args.Peek(name)
		return strings.TrimSpace(strings.ReplaceAll(string(b[:min(len(b), most)]), "\r\n", "\n"))
	}
	f := &labForm{
		Service: now.Service, Since: field("since", longestField), Threshold: field("threshold", longestField), Unsure: field("unsure", longestField),
		Rules: field("rules", longestText), Model: field("model", longestField), Card: field("card", longestText), Weights: map[int]float64{},
	}
	for i := range f.Limits {
		n := strconv.Itoa(i)
		f.Limits[i] = limitForm{field("window"+n, longestField), field("requests"+n, longestField), field("ban"+n, longestField)}
	}
	for i, was := range now.Weights {
		f.Weights[i] = was
		if w, err := strconv.ParseFloat(field(formWeight+strconv.Itoa(i), longestField), 64); err == nil && math.Abs(w-was) >= weightChange {
			f.Weights[i] = w
		}
	}
	return f
}

// change returns what differs from what there is.
func (f *labForm) change(now *labForm) (c lab.Change, wrong string) {
	var s lab.Service
	number := func(text, was string, to **float64) {
		if text == was || text == "" {
			return
		}
		n, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
		if err != nil {
			wrong = text
			return
		}
		*to = &n
	}
	number(f.Threshold, now.Threshold, &s.Threshold)
	number(f.Unsure, now.Unsure, &s.Unsure)
	if f.Limits != now.Limits {
		limits := []lab.Limit{}
		for _, l := range f.Limits {
			if l.Window == "" {
				continue
			}
			n, err := strconv.Atoi(l.Requests)
			if err != nil {
				wrong = l.Requests
			}
			limits = append(limits, lab.Limit{Window: l.Window, Requests: n, Ban: l.Ban})
		}
		s.Limits = &limits
	}
	if f.Rules != strings.TrimSpace(now.Rules) {
		s.Rules = &f.Rules
	}
	if s != (lab.Service{}) {
		c.Services = map[string]lab.Service{f.Service: s}
	}
	for i, w := range f.Weights {
		if w != now.Weights[i] {
			if c.Weights == nil {
				c.Weights = map[int]float64{}
			}
			c.Weights[i] = w
		}
	}
	switch {
	case f.Card != "":
		c.Card, c.Weights = f.Card, nil
	case f.Model != "":
		c.Model, c.Weights = f.Model, nil
	}
	return c, wrong
}

// labPage is what the page of the lab begins with. False: the problem has been shown.
func (v *visit) labPage(service string) (view admin.LabState, now *labForm, data map[string]any, ok bool) {
	if !v.get("/api/lab"+everywhere, &view) {
		return view, nil, nil, false
	}
	if len(view.Services) == 0 {
		v.problem(fasthttp.StatusNotFound, "not_here", "")
		return view, nil, nil, false
	}
	s := &view.Services[0]
	for i := range view.Services {
		if view.Services[i].Name == service {
			s = &view.Services[i]
		}
	}
	now = formOf(&view.View, s)
	return view, now, map[string]any{"V": view, "S": s, "F": now, "Lost": lost(view.Gateways), "Spans": []string{"12h", "1d", "3d", "7d", "14d"}}, true
}

func (v *visit) showLab() {
	if _, _, data, ok := v.labPage(string(v.ctx.QueryArgs().Peek("service"))); ok {
		v.page("lab", fasthttp.StatusOK, data)
	}
}

// useLab does what a button of the lab says: it rehearses and shows what came out, or it changes and leads back.
func (v *visit) useLab() {
	view, now, data, ok := v.labPage(string(v.ctx.PostArgs().Peek("service")))
	if !ok {
		return
	}
	do := string(v.ctx.PostArgs().Peek("do"))
	form := v.readLab(now)
	data["F"] = form
	change, wrong := form.change(now)
	if wrong != "" {
		data["Problem"] = wrong
		v.page("lab", fasthttp.StatusBadRequest, data)
		return
	}
	since := form.Since
	if of, ok := strings.CutPrefix(do, "shadow-"); ok && view.Shadow != nil { // what is looked at, not what the form holds
		do, change, data["F"], data["OfShadow"] = of, lab.Change{Settings: view.Shadow.Settings}, now, true
		since = view.Shadow.At.Format("2006-01-02T15:04:05Z")
	}
	if do == "rehearse" {
		v.rehearse(&change, since, data)
		return
	}
	calls := map[string][2]string{
		"shadow": {"POST", "/api/lab/shadow"}, "apply": {"POST", "/api/lab/apply"}, "takeback": {"POST", "/api/lab/takeback"}, "over": {"DELETE", "/api/lab/shadow"},
	}
	call, ok := calls[do]
	if !ok {
		v.problem(fasthttp.StatusBadRequest, "not_here", do)
		return
	}
	var body []byte
	if do == "shadow" || do == "apply" {
		body, _ = json.Marshal(&change) // texts and numbers always encode
	}
	status, answer := v.api.Ask(v.s.who, call[0], call[1], body)
	if status == fasthttp.StatusOK {
		v.s.say("done_lab_" + do)
		away(v.ctx, root+"lab?service="+form.Service)
		return
	}
	data["Problem"] = problemOf(answer)
	v.page("lab", status, data)
}

// rehearse shows what a change would have done.
func (v *visit) rehearse(c *lab.Change, since string, data map[string]any) {
	body, _ := json.Marshal(struct { // as above
		*lab.Change
		Since string `json:"since"`
	}{c, since})
	status, answer := v.api.Ask(v.s.who, "POST", "/api/lab/rehearse", body)
	var out lab.Rehearsal
	if status == fasthttp.StatusOK && json.Unmarshal(answer, &out) == nil {
		data["Out"], data["What"] = out, c.Changes()
		if len(c.Weights) > 0 {
			data["Weights"] = len(c.Weights)
		}
	} else {
		data["Problem"] = problemOf(answer)
	}
	v.page("lab", status, data)
}
