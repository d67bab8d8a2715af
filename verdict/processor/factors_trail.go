package processor

// The factors of how a subject moves through the site need enough page loads; before that, they are unknown.

// stays is a figure about how long it stays on pages.
func stays(f func(t *trail) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.t.sums.n < enoughStays || int(c.t.nStays)*mostTurned < int(c.t.nMoves) {
			return nan
		}
		return f(&c.t)
	}
}

// moves is a share of its page loads.
func moves(list ...move) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.t.nMoves < 6 {
			return nan
		}
		var n float32
		for _, m := range list {
			n += float32(c.t.moves[m])
		}
		return n / float32(c.t.nMoves)
	}
}

// ofThese is how many of those that are counted as one sort are of another, too; unknown with as few as say nothing about stays.
func ofThese(m, of move) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.t.moves[of] < enoughStays {
			return nan
		}
		return float32(c.t.moves[m]) / float32(c.t.moves[of])
	}
}

// revisits is the share of its page loads that are of a page which it has seen.
func revisits(c *evidence) float32 {
	m := &c.t.moves
	all := float32(c.t.nMoves) + float32(c.t.still)
	if all < 6 {
		return nan
	}
	return (float32(m[moveBack]) + float32(m[moveAgain]) + float32(m[moveLoop]) + float32(c.t.still)) / all
}

// led is a value that is unknown for a client that withholds referers, or where nobody names a page of the site.
func led(f func(*evidence) float32) func(*evidence) float32 {
	return withOwnReferers(func(c *evidence) float32 {
		if 4*int(c.t.moves[moveKept]) > int(c.t.nMoves) {
			return nan
		}
		return f(c)
	})
}

// entersWithin is the share of its page loads that nothing of the site has led to, though it was there a moment ago. A
// client that never names a page as its Referer, not for the parts of pages either, keeps all of them to itself.
func entersWithin(c *evidence) float32 {
	m := &c.t.moves
	if c.s.flags&flagLed == 0 && m[moveChain]+m[moveBranch]+m[moveJump] == 0 || c.t.nMoves < 6 {
		return nan
	}
	return float32(m[moveWithin]) / float32(c.t.nMoves)
}

// walked is a figure about its path through the site, after enough page loads.
func walked(least uint32, f func(t *trail) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.t.loads < least {
			return nan
		}
		return f(&c.t)
	}
}

// returns is a figure about the times between visits, when there are at least so many.
func returns(least uint16, f func(m *moments) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.t.returns.n < least {
			return nan
		}
		return f(&c.t.returns)
	}
}

func spreadMost(t *trail) float32 { return t.sums.spreadMost() }

// longestOver is the longest stay divided by the typical one.
func longestOver(t *trail) float32 { return t.longest / max(t.quantile(0.5), 0.1) }

// awake is how many hours it has gone on without a rest of five hours.
func awake(t *trail) float32 { return float32(t.came-t.rested) / 3600_000 }

// fan is the number of page loads per page that any of them comes from.
func fan(t *trail) float32 {
	from := t.moves[moveChain] + t.moves[moveBranch] + t.moves[moveJump]
	d := distinct(t.leads, 64)
	if from < 4 || d == 0 {
		return nan
	}
	return float32(from) / d
}

// steps is the share of the numbers that are adjacent to the one before.
func steps(c *evidence) float32 {
	if c.t.nNumbers < 8 {
		return nan
	}
	return float32(c.t.moves[moveStep]) / float32(c.t.nNumbers)
}
