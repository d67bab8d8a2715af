package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

type entry struct {
	List    string    `json:"-"`
	Entry   string    `json:"entry"`
	Service string    `json:"service"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until"`
	Silent  bool      `json:"silent"`
	spoken
}

// spoken is how often an entry or a list decided; Since is when the counting began.
type spoken struct {
	Decided   uint64    `json:"decided"`
	DecidedOn string    `json:"decided_on"`
	Since     time.Time `json:"counted_since"`
}

// Known is when it is known whether there was no decision in 30 days.
func (s spoken) Known() time.Time { return s.Since.AddDate(0, 0, 30) }

// runtimeLists are those to which entries are added while the gateway runs.
var runtimeLists = []string{"white", "block", "ban"}

// maxEntries is how many entries the page shows.
const maxEntries = 600

// showLists shows the bans, the entries of lists with how often each decided, and where the others come from. The
// entries are those made at run time, or those of one source.
func (v *visit) showLists() {
	search := strings.ToLower(v.query())
	holds := func(texts ...string) bool {
		return search == "" || strings.Contains(strings.ToLower(strings.Join(texts, " ")), search)
	}
	var bans struct {
		Items []*struct {
			Subject, Source, Reason, Service string
			Made, Until                      time.Time
		} `json:"items"`
		Next string `json:"next"`
	}
	if !v.get("/api/bans?limit=1000", &bans) {
		return
	}
	found := bans.Items[:0]
	for _, b := range bans.Items {
		if holds(b.Subject, b.Source, b.Reason) && len(found) < 200 {
			found = append(found, b)
		}
	}
	var sources struct {
		Sources []source `json:"sources"`
	}
	v.look("/api/lists", &sources)
	name, silent := string(v.ctx.QueryArgs().Peek("list")), v.ctx.QueryArgs().Has("silent")
	data := map[string]any{"Bans": found, "More": bans.Next != "", "Sources": sources.Sources, "Silent": silent}
	lists := runtimeLists
	if i := slices.IndexFunc(sources.Sources, func(s source) bool { return s.Name == name && s.Counted() }); i >= 0 {
		lists, data["Source"] = []string{name}, &sources.Sources[i]
	}
	args := "?limit=1000"
	if data["Source"] != nil && silent {
		args += "&silent=true" // of a long list
	}
	entries, young, more := v.entriesOf(lists, args, silent, holds)
	data["Entries"], data["Young"], data["Others"] = entries, young, more
	v.page("lists", fasthttp.StatusOK, data)
}

// entriesOf returns the entries of lists that a search holds for; if silent, those that are known not to have decided
// in 30 days. Of the others, young have not decided, and have been counted for less than that. more says that there are
// entries beyond.
func (v *visit) entriesOf(lists []string, args string, silent bool, holds func(...string) bool) (entries []entry,
	young int, more bool,
) {
	for _, list := range lists {
		var l struct {
			Items []entry `json:"items"`
			Next  string  `json:"next"`
		}
		if !v.look("/api/lists/"+url.PathEscape(list)+args, &l) {
			continue
		}
		more = more || l.Next != ""
		for _, e := range l.Items {
			switch e.List = list; {
			case !holds(list, e.Entry, e.Reason):
			case silent && !e.Silent:
				if e.Decided == 0 {
					young++
				}
			case len(entries) < maxEntries:
				entries = append(entries, e)
			default:
				more = true
			}
		}
	}
	return entries, young, more
}
