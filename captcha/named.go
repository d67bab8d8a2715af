package captcha

import "time"

// A ban or a question may concern one client of an address alone. A browser without a name of ours may be this client or
// somebody new: it is sent to the captcha page together with a name, and if it comes there with that name, it is another
// client, and is sent back without noticing anything. Who keeps no cookies is asked.

// gaveProbe reports whether the answer with the link gave the browser a probe cookie.
func (l *link) gaveProbe() bool { return l.u != "" && (l.u[0] == probed || l.u[0] == named) }

// knownByName reports whether the visitor of a link of ours has kept the name that came with it.
func (ls *links) knownByName(q *Request, p *params, l *link, at time.Time) bool {
	if l.u == "" || l.u[0] != named || p.status != "" || p.key != "" {
		return false
	}
	_, has := q.ID.Browser()
	return has && ls.fresh(q, l, at)
}
