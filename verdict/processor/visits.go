package processor

import "antirobot/verdict"

// Visits of newcomers of a network that count in half a day, and of a visitor whom the site knows: whoever makes many up has no more
// people asked.
const (
	visitsOfNetwork = 8
	visitsOfKnown   = 4
	visitCells      = 4096
)

// visit counts a visit of somebody who is a person, unless too many of the same have counted.
func (n *newcomers) visit(e *verdict.Event, of uint64, most uint8) {
	if half := e.At.Unix() / halfDay; half > n.half {
		n.half, n.heard = half, [visitCells]uint8{}
	}
	if !hears(n.heard[:], of, most) {
		return
	}
	if ms := e.At.UnixMilli(); ms > n.at {
		d := fading(float64(ms-n.at)/1000, groupDay)
		n.visits, n.back = n.visits*d, n.back*d
		n.at = ms
	}
	n.visits++
}
