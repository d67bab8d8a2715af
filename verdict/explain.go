package verdict

import (
	"antirobot/cbb"
	"antirobot/identity"
)

// StoryPlace is where an address is.
type StoryPlace struct {
	Country string `json:"country,omitempty"` // two letters
	ASN     uint32 `json:"asn,omitempty"`     // the autonomous system's number
	Org     string `json:"org,omitempty"`     // and its name
}

// explain adds where the address is, and which line of a list decided, where the list does not keep that with each entry.
func (r *Recent) explain(s Story, e *cbb.Entry) Story {
	if r.place != nil && len(s.Considered) > 0 {
		if sub, err := identity.ParseSubject(s.Considered[len(s.Considered)-1]); err == nil {
			addr, _ := sub.Addr()
			if at := r.place(addr); at != (StoryPlace{}) {
				s.Place = &at
			}
		}
	}
	if e != nil && e.Text == "" && len(s.Considered) > 0 {
		s.Entry.Text = r.Describe(e, s.Considered[len(s.Considered)-1])
	}
	return s
}

// Describe returns the list line that an entry stems from, for the client with that address subject ("ip:203.0.113.7");
// empty when it is not known. Not for the hot path.
func (r *Recent) Describe(e *cbb.Entry, subject string) string {
	if e.Text != "" || r.describe == nil {
		return e.Text
	}
	s, err := identity.ParseSubject(subject)
	if err != nil {
		return ""
	}
	addr, _ := s.Addr()
	return r.describe(e, addr)
}
