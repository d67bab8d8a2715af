package console

import (
	"cmp"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/journal"
)

const courseRows = 300

// sortFactors puts the heaviest first, whatever they speak for.
func sortFactors(all []factor) {
	slices.SortFunc(all, func(a, b factor) int {
		if c := cmp.Compare(max(b.Amount, -b.Amount), max(a.Amount, -a.Amount)); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

// networkOf returns the /24 or /48 of an address or of a /64; empty if the text is neither.
func networkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		p, err := netip.ParsePrefix(address)
		if err != nil {
			return ""
		}
		a = p.Addr()
	}
	bits := 24
	if a.Is6() {
		bits = 48
	}
	n, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return n.String()
}

// companyOf are the factors that count who else is where a subject is, or is like it, each with the group that it is
// of.
var companyOf = [...]struct{ group, factor string }{
	{"itself", "clients"},
	{"address", "address_established"},
}

// groupSize is a line of the table of who else is like a subject.
type groupSize struct {
	Group, Factor string
	Size          float32
	When          time.Time // the ban that says so; zero: now
	Query         string    // finds the requests of the group; empty: the journal does not know it
}

// company returns the groups that a subject belongs to with their sizes: of now, and where memory does not hold them,
// of its last ban. Queries find the requests of a group.
func (s *standing) company(queries map[string]string) []groupSize {
	var all []groupSize
	for _, of := range companyOf {
		line := groupSize{Group: of.group, Factor: of.factor, Query: queries[of.group]}
		for _, b := range s.Bans {
			if v := b.Factors[of.factor]; v > 0 && b.Made.After(line.When) {
				line.Size, line.When = v, b.Made
			}
		}
		if s.Session != nil {
			for _, f := range s.Session.Factors {
				if f.Name == of.factor {
					line.Size, line.When = f.Value, time.Time{}
				}
			}
		}
		// they are estimates, and it counts itself
		if line.Size = float32(math.Round(float64(line.Size))); line.Size > 1 {
			all = append(all, line)
		}
	}
	return all
}

// queriesOf returns what finds the requests of the groups of a subject: its address, if it is one.
func queriesOf(address string) map[string]string {
	if address == "" {
		return nil
	}
	return map[string]string{"address": "ip:" + address}
}

// showSubject shows a subject and its requests.
func (v *visit) showSubject() {
	subject := v.arg
	if subject == "" {
		subject = v.query()
	}
	if a, err := netip.ParseAddr(subject); err == nil {
		subject = "ip:" + a.String()
	}
	var now standing
	if !v.get("/api/subjects/"+url.PathEscape(subject)+everywhere, &now) {
		return
	}
	data := map[string]any{"Subject": now.Subject, "Now": now, "Lost": lost(now.Gateways)}
	var course journal.Found
	if v.look("/api/journal?"+url.Values{
		"subject": {now.Subject}, "limit": {strconv.Itoa(courseRows)},
		"gateways": {"all"},
	}.Encode(), &course) {
		data["Course"] = course.Entries
		data["Plot"] = v.coursePlot(course.Entries)
	}
	if now.Session != nil {
		var all []factor
		for _, f := range now.Session.Factors {
			if f.Amount != 0 {
				all = append(all, factor{f.Name, f.Value, f.Amount, true})
			}
		}
		sortFactors(all)
		data["Factors"] = all
	}
	if a, ok := strings.CutPrefix(now.Subject, "ip:"); ok {
		data["Network"], data["Let"] = networkOf(a), a
	} else {
		data["Let"] = now.Subject
	}
	address, _ := strings.CutPrefix(now.Subject, "ip:")
	data["Company"] = now.company(queriesOf(address))
	v.page("subject", fasthttp.StatusOK, data)
}
