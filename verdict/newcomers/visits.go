package newcomers

import (
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Visits of newcomers of a network that count in half a day, and of a visitor whom the site knows: whoever makes many up has no more
// people asked.
const (
	visitsOfNetwork = 8
	visitsOfKnown   = 4
	visitCells      = 4096

	day     = 86400.0
	halfDay = 12 * 3600
)

// visit counts a visit of somebody who is a person, unless too many of the same have counted.
func (s *Service) visit(e *verdict.Event, of uint64, most uint8) {
	if half := e.At.Unix() / halfDay; half > s.half {
		s.half, s.heard = half, [visitCells]uint8{}
	}
	if !tally.Hears(s.heard[:], of, most) {
		return
	}
	if ms := e.At.UnixMilli(); ms > s.at {
		d := tally.Fading(float64(ms-s.at)/1000, day)
		s.visits, s.back = s.visits*d, s.back*d
		s.at = ms
	}
	s.visits++
}
