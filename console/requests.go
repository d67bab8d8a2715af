package console

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/admin"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

const everywhere = "?gateways=all"

const (
	shownRows    = 100
	exportedRows = 5000
	neighbours   = 12
)

func (v *visit) query() string { return strings.TrimSpace(string(v.ctx.QueryArgs().Peek("q"))) }

func journalTarget(q, before string, limit int) string {
	args := url.Values{"q": {q}, "limit": {strconv.Itoa(limit)}, "gateways": {"all"}}
	if before != "" {
		args.Set("before", before)
	}
	return "/api/journal?" + args.Encode()
}

// showRequests shows the journal, or one entry of it.
func (v *visit) showRequests() {
	q := v.query()
	id, ok := request.ParseID(q)
	switch {
	case v.arg != "":
		v.showRequest()
		return
	case ok:
		away(v.ctx, root+"requests/"+id.String())
		return
	}
	var found page
	before := string(v.ctx.QueryArgs().Peek("before"))
	data := map[string]any{}
	status, answer := v.api.Ask(v.s.who, "GET", journalTarget(q, before, shownRows), nil)
	if status != fasthttp.StatusOK {
		data["Problem"] = problemOf(answer)
	} else if err := json.Unmarshal(answer, &found); err != nil {
		data["Problem"] = err.Error()
	}
	args := url.Values{"q": {q}}
	data["Found"], data["Same"], data["Lost"] = found, argsOf(args), lost(found.Gateways)
	if found.Next != "" {
		args.Set("before", found.Next)
		data["Next"] = argsOf(args)
	}
	data["Live"] = before == ""
	data["Keys"] = strings.Fields(journal.Keys)
	if status != fasthttp.StatusNotImplemented {
		status = fasthttp.StatusOK
	}
	v.page("requests", status, data)
}

// argsOf returns the arguments of a link as they are: a template would escape their = and & as if they were one value.
func argsOf(v url.Values) template.URL { return template.URL(v.Encode()) } //nolint:gosec // encoded just now

type page struct {
	journal.Found
	Gateways []admin.GatewayState `json:"gateways"`
}

func lost(all []admin.GatewayState) (some []admin.GatewayState) {
	for _, g := range all {
		if g.Error != "" {
			some = append(some, g)
		}
	}
	return some
}

// export returns what a view selects, without the limit of a screen.
func (v *visit) export(kind, ext string) (found page, ok bool) {
	if ok = v.get(journalTarget(v.query(), "", exportedRows), &found); ok {
		v.ctx.SetContentType(kind)
		v.ctx.Response.Header.Set("Content-Disposition",
			`attachment; filename="requests-`+v.now().UTC().Format("20060102-150405")+"."+ext+`"`)
	}
	return found, ok
}

func (v *visit) exportJSON() {
	found, ok := v.export("application/json", "json")
	if !ok {
		return
	}
	text, err := json.Marshal(found.Entries)
	if err != nil {
		panic("BUG: entries do not encode: " + err.Error())
	}
	v.ctx.SetBody(text)
}

func (v *visit) exportCSV() {
	found, ok := v.export("text/csv; charset=utf-8", "csv")
	if !ok {
		return
	}
	w := csv.NewWriter(v.ctx.Response.BodyWriter())
	_ = w.Write([]string{
		"id", "at", "kind", "service", "mode", "verdict", "cause", "method", "path", "status",
		"seconds", "subject", "address", "agent", "ja4", "reason", "by", "share", "gateway",
	})
	for i := range found.Entries {
		e := &found.Entries[i]
		_ = w.Write([]string{
			e.ID, e.At.Format(time.RFC3339Nano), e.Kind, cell(e.Service), e.Mode, e.Verdict, e.Cause, cell(e.Method),
			cell(e.Path), strconv.Itoa(int(e.Status)),
			fmt.Sprint(e.Seconds), cell(e.Subject), e.Address, cell(e.Agent), cell(e.JA4), cell(e.Reason), cell(e.By),
			fmt.Sprint(e.Share), cell(e.Gateway),
		})
	}
	w.Flush() // into memory
}

// cell keeps a spreadsheet from taking a visitor's text for a formula, also where a semicolon or a tab begins the next
// cell, as it does in many countries.
func cell(s string) string {
	var b strings.Builder
	begins := true
	for _, c := range s {
		if begins && strings.ContainsRune("=+-@\t\r\n＝＋－＠", c) {
			b.WriteByte('\'')
		}
		b.WriteRune(c)
		begins = c == ';' || c == '\t' || c == '\n' || begins && (c == ' ' || c == '"')
	}
	return b.String()
}

type told struct {
	Items    []journal.Entry      `json:"items"`
	Story    *verdict.Story       `json:"story"`
	Gateways []admin.GatewayState `json:"gateways"`
}

type standing struct {
	Subject   string         `json:"subject"`
	Gateway   string         `json:"gateway"` // whose session it is
	Bans      []*bans.Story  `json:"bans"`
	Entries   []admin.Naming `json:"entries"`
	Exempt    bool           `json:"exempt"`
	Allowance *struct {
		Limit, Spent, Left uint32
		Expires            time.Time
	} `json:"allowance"`
	Session *struct {
		First      time.Time `json:"first"`
		Last       time.Time `json:"last"`
		Pages      int       `json:"pages"`
		Parts      int       `json:"parts"`
		Claim      string    `json:"claims_to_be"`
		Score      float32   `json:"score"`
		Model      string    `json:"model"`
		Bans       int       `json:"bans"`
		Evaluated  time.Time `json:"evaluated"`
		Challenges struct {
			Shown, Solved, Failed, Ignored int
		} `json:"challenges"`
		Factors []struct {
			Name   string  `json:"name"`
			Group  string  `json:"group"`
			Value  float32 `json:"value"`
			Amount float32 `json:"amount"`
		} `json:"factors"`
	} `json:"session"`
	Gateways []admin.GatewayState `json:"gateways"`
}

type factor struct {
	Name   string
	Value  float32
	Amount float32
	Weighs bool // Amount is known
}

// factorsOf returns what made a ban or a doubt, the heaviest first.
func factorsOf(values, amounts map[string]float32) []factor {
	var all []factor
	for name, value := range values {
		amount, ok := amounts[name]
		all = append(all, factor{name, value, amount, ok})
	}
	sortFactors(all)
	return all
}

func (v *visit) showRequest() {
	id, ok := request.ParseID(v.arg)
	if !ok {
		v.problem(fasthttp.StatusNotFound, "no_number", v.arg)
		return
	}
	var is told
	var problem string
	if !v.look("/api/journal/"+id.String()+everywhere, &is) || is.Story == nil {
		status, answer := v.api.Ask(v.s.who, "GET", "/api/decisions/"+id.String()+everywhere, nil)
		if s := new(verdict.Story); status == fasthttp.StatusOK && json.Unmarshal(answer, s) == nil {
			is.Story = s
		} else {
			problem = problemOf(answer)
		}
	}
	if is.Story == nil && len(is.Items) == 0 {
		v.problem(fasthttp.StatusNotFound, "not_remembered", problem)
		return
	}
	data := map[string]any{"ID": id.String(), "Story": is.Story, "Entries": is.Items, "Lost": lost(is.Gateways)}
	var subject string
	if is.Story != nil {
		v.tell(is.Story, data)
		subject = is.Story.Subject
	} else {
		subject = is.Items[0].Subject
	}
	data["Subject"] = subject
	v.around(subject, data)
	v.page("request", fasthttp.StatusOK, data)
}

// tell adds the factors of a story, and the subject of the buttons.
func (v *visit) tell(s *verdict.Story, data map[string]any) {
	switch {
	case s.Ban != nil:
		data["Factors"] = factorsOf(s.Ban.Factors, s.Ban.Amounts)
		data["Banned"] = s.Ban.Subject
	case s.Doubt != nil:
		data["Factors"] = factorsOf(s.Doubt.Factors, s.Doubt.Amounts)
	}
	var address string
	for _, c := range s.Considered {
		if a, ok := strings.CutPrefix(c, "ip:"); ok {
			address = a
		}
	}
	data["Address"], data["Network"] = address, networkOf(address)
	data["Let"] = s.Subject
	if a, ok := strings.CutPrefix(s.Subject, "ip:"); ok {
		data["Let"] = a
	}
	data["LetThrough"] = s.Verdict == verdict.Human.String() || s.Mode != verdict.Enforce.String()
}

// around adds the current state of the subject, and its requests before and after.
func (v *visit) around(subject string, data map[string]any) {
	if subject == "" {
		return
	}
	var now standing
	if v.look("/api/subjects/"+url.PathEscape(subject)+everywhere, &now) {
		data["Now"] = now
	}
	var others journal.Found
	if v.look("/api/journal?"+url.Values{
		"subject": {subject}, "limit": {strconv.Itoa(neighbours)},
		"gateways": {"all"},
	}.Encode(), &others) {
		data["Others"] = others.Entries
	}
}
