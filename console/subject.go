package console

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// showSubject shows what is known of a subject, and its course.
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
	if v.look("/api/journal?"+url.Values{"subject": {now.Subject}, "limit": {strconv.Itoa(courseRows)}, "gateways": {"all"}}.Encode(), &course) {
		data["Course"] = course.Entries
		data["Plot"] = coursePlot(course.Entries)
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
	v.page("subject", fasthttp.StatusOK, data)
}
