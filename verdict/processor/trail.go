package processor

import (
	"math"
	"slices"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/dwell"
)

// trail is how a subject moves through a site: how long it stays on pages, where it goes from them, and what is new to
// it and to everybody. It is kept for subjects with a second page load, a small part of all. Counts in bytes fade by
// halving.
type trail struct {
	at               int64              // unix milliseconds of the last load
	came             int64              // … of the last one that was no reload: since then it is on its page
	rested           int64              // … of the first such load after the last long rest
	began            int64              // … of the first such load of this visit
	seen             [4]uint64          // one bit for each page
	leads            uint64             // one bit for each page that it came from
	pages            [trailPages]uint32 // the last ones, by path
	stays            [stayBuckets]uint8 // by the binary logarithm of the seconds
	nStays           uint8              // in stays
	moves            [moveCount]uint8
	nMoves           uint8 // loads in moves, without reloads
	still            uint8 // reloads, which fade with moves
	turn             uint8 // loads without reloads, modulo 256: where in pages the next one goes
	visits           uint8
	shown            byScript
	nNumbers         uint8   // targets with a number, the base of moveStep
	sums             moments // of the logarithm of the seconds
	dwell            dwell.Visitor
	longest          float32 // seconds
	returns          moments // of the logarithm of the hours between visits
	hub              uint32  // the page that the last load came from
	loads            uint32
	target           uint32 // of the last load
	visit            uint32 // loads of this visit, without reloads
	most             uint32 // … of the longest visit
	number, series   uint32 // of the last target with one
	picture, gallery uint32 // … of the last page load with one, whatever its scripts have asked for since
}

const (
	trailPages  = 16
	stayBuckets = 13
	visitGap    = 30 * 60 // seconds without a load after which the next load belongs to another visit
	longRest    = 5 * 3600
)

// move relates a page load to those before it.
type move uint8

// The moves.
const (
	moveBack   move = iota // to the page before the last one
	moveAgain              // the last page again, by another address or method
	moveLoop               // to a page that it has seen before
	moveChain              // from the last page, as its Referer says
	moveBranch             // from an earlier page
	moveJump               // from a page of the site where it has not been seen
	moveEntry              // without a referer, or from another site
	moveWithin             // … in the middle of a visit
	moveKept               // from a page of the site that the referer does not name
	moveAnew               // a page that is new to it, by a browser whose fields are known …
	moveForce              // … that wants nothing from a cache
	moveLed                // … that a page of the site has led to, by a browser that says whether somebody has opened it …
	moveAlone              // … of which it says that nobody has
	moveStep               // to the number adjacent to the last one of its series
	moveCount
)

// load adds a page load that is no reload; fresh says that the page is new to this subject.
// It returns how long it was on the page before, as stay does; NaN if it has not left that for this one.
func (t *trail) load(e *verdict.Event, fresh, turned bool) (stayed float32) {
	page := uint32(e.Path)
	gap := t.opens(e)
	stayed = nan
	if t.loads > 0 && gap <= visitGap && !turned && !t.inPassing(e, page, gap) {
		stayed = t.stay(float32(gap))
	}
	if fresh {
		t.hand(e)
	}
	t.move(e, page)
	t.read(e, page)
	t.target, t.shown = uint32(e.Target), 0
	return stayed
}

// opens counts a page that is opened, and returns how many seconds after the last one.
func (t *trail) opens(e *verdict.Event) (gap float64) {
	if t.nMoves == math.MaxUint8 {
		for i := range t.moves[:moveStep] {
			t.moves[i] /= 2
		}
		t.nMoves /= 2
		t.still /= 2
	}
	t.nMoves++
	ms := e.At.UnixMilli()
	gap = max(float64(ms-t.came)/1000, 0)
	t.clock(ms, gap)
	return gap
}

// read puts the subject on a page.
func (t *trail) read(e *verdict.Event, page uint32) {
	t.pages[t.turn%trailPages] = page
	t.turn++
	inc(&t.loads)
	ms := e.At.UnixMilli()
	t.at, t.came = max(t.at, ms), max(t.came, ms)
}

// reloads reports whether a load is one of the last page again. A page may reload itself, whether or not anybody is there: nobody has gone
// anywhere by that, has left the page, or is awake. Who is not here any more, see session.here, comes back.
func (t *trail) reloads(e *verdict.Event, here bool) bool {
	return here && t.loads > 0 && e.Method == 'G' && t.target == uint32(e.Target) && t.pages[(t.turn-1)%trailPages] == uint32(e.Path)
}

// reload adds a load of the last page again.
func (t *trail) reload(e *verdict.Event) {
	inc(&t.loads)
	inc(&t.still)
	t.at = max(t.at, e.At.UnixMilli())
}

// tabGap is how many seconds apart links are opened when the pages are not looked at in between.
const tabGap = 5

// inPassing reports whether the last page was not left for this one: it is loaded again, or several links of another
// page are opened one after the other. Another query is another page, as of a forum that shows all its threads by one path, unless it only defeats caches.
func (t *trail) inPassing(e *verdict.Event, page uint32, gap float64) bool {
	last := t.pages[(t.turn-1)%trailPages]
	if page == last && (t.target == uint32(e.Target) || e.Number >= client.StampFrom) {
		return true
	}
	if e.Referer == client.RefererSame {
		return gap < tabGap && e.RefererPath != last
	}
	return gap < tabGap && e.Referer == client.RefererNone && e.Site == client.SiteSame
}

// turns reports whether a page load turns a page: to the next picture of a series, or to the one before, by a link of the site. People do that at an even pace, and
// read no page of it for long.
func turns(e *verdict.Event, series, number uint32) bool {
	d := stepOf(e, series, number)
	return e.Referer == client.RefererSame && (d == 1 || d == -1) && e.Number <= longestSeries
}

// stepOf is by how much the number of a request is above or below the last one of the subject, if it is close to that and of the same series; else 0.
func stepOf(e *verdict.Event, series, number uint32) int64 {
	if d := int64(e.Number) - int64(number); e.Series != 0 && e.Series == series && d >= -3 && d <= 3 {
		return d
	}
	return 0
}

// longestSeries is the highest number of a page of a series: what has higher ones is numbered throughout, as are all things that a site sells.
const longestSeries = 200

// step records the number in the target of a page load or of a script's call.
func (t *trail) step(e *verdict.Event, turned bool) {
	if e.Series == 0 {
		return
	}
	if t.nNumbers == math.MaxUint8 {
		t.nNumbers /= 2
		t.moves[moveStep] /= 2
	}
	t.nNumbers++
	if !turned && stepOf(e, t.series, t.number) != 0 {
		t.moves[moveStep]++
	}
	t.number, t.series = e.Number, e.Series
}

// turnsPage records the number in the target of a page load, and reports whether that turns a page of the last one that the subject has opened.
func (t *trail) turnsPage(e *verdict.Event) bool {
	turned := turns(e, t.gallery, t.picture) && e.RefererPath == t.pages[(t.turn-1)%trailPages]
	if e.Series != 0 {
		t.picture, t.gallery = e.Number, e.Series
	}
	return turned
}

// clock counts visits and rests.
func (t *trail) clock(ms int64, gap float64) {
	if t.loads == 0 {
		t.rested = ms
	}
	if t.loads == 0 || gap > visitGap {
		if t.loads > 0 {
			t.returns.add(float32(math.Log(gap / 3600)))
		}
		inc(&t.visits)
		t.visit, t.began = 0, ms
	}
	if gap > longRest {
		t.rested = ms
	}
	t.visit++
	t.most = max(t.most, t.visit)
}

// stay adds how long the last page was viewed, and returns the logarithm of that.
func (t *trail) stay(s float32) float32 {
	if t.nStays == math.MaxUint8 {
		for i := range t.stays {
			t.stays[i] /= 2
		}
		t.nStays /= 2
	}
	b := min(max(math.Ilogb(float64(max(s, 0.01)))+3, 0), stayBuckets-1) // 0: under a quarter of a second
	t.stays[b]++
	t.nStays = 0
	for _, n := range t.stays {
		t.nStays += n
	}
	l := float32(math.Log(float64(max(s, 0.05))))
	t.sums.add(l)
	t.longest = max(t.longest, s)
	return l
}

// passes counts whether a page is one that the subject has seen.
func (t *trail) passes(page uint32) {
	last, before := t.pages[(t.turn-1)%trailPages], t.pages[(t.turn-2)%trailPages]
	switch {
	case t.loads == 0:
	case page == last:
		t.moves[moveAgain]++
	case page == before:
		t.moves[moveBack]++
	case t.has(page):
		t.moves[moveLoop]++
	}
	t.seen[page>>6%4] |= 1 << (page % 64)
}

// move counts where the load comes from and leads to.
func (t *trail) move(e *verdict.Event, page uint32) {
	last := t.pages[(t.turn-1)%trailPages]
	t.passes(page)
	switch {
	case e.Referer == client.RefererNone && e.Site == client.SiteSame:
		t.moves[moveKept]++
	case e.Referer != client.RefererSame:
		t.moves[moveEntry]++
		if t.visit > 1 && page != last {
			t.moves[moveWithin]++
		}
	case e.RefererPath == last:
		t.moves[moveChain]++
	case e.RefererPath == t.hub || t.among(e.RefererPath):
		t.moves[moveBranch]++
	default:
		t.moves[moveJump]++
	}
	if e.Referer == client.RefererSame {
		t.hub = e.RefererPath
		t.leads |= 1 << (e.RefererPath % 64)
	}
}

// hand counts by what a page is opened that is new to the subject. Going back and loading again are left out: browsers differ in what they say of them.
func (t *trail) hand(e *verdict.Event) {
	if e.Partial || !e.Page || e.Headers&client.HasFetchMode == 0 || e.Headers&(client.HasPurpose|client.InFrame) != 0 || !e.Claim.TellsHands() {
		return
	}
	t.moves[moveAnew]++
	if e.Headers&client.HasPragma != 0 {
		t.moves[moveForce]++
	}
	if e.Site != client.SiteSame {
		return
	}
	t.moves[moveLed]++
	if e.Headers&client.HasFetchUser == 0 {
		t.moves[moveAlone]++
	}
}

func (t *trail) among(page uint32) bool {
	return slices.Contains(t.pages[:], page)
}

// has reports whether the subject has loaded a page, as far as is known.
func (t *trail) has(page uint32) bool { return t.seen[page>>6%4]&(1<<(page%64)) != 0 }

// enoughStays is the number of stays from which on they mean something, unless there are more than mostTurned loads for each: who turns pages most of the
// time, or opens them beside each other, is as quick with the others, as they lead to those.
const (
	enoughStays = 6
	mostTurned  = 4
)

// quantile is the time below which roughly the given share of the stays lies.
func (t *trail) quantile(share float32) float32 {
	want := share * float32(t.nStays)
	var sum float32
	for b, n := range t.stays {
		if sum+float32(n) >= want && n > 0 {
			in := (want - sum) / float32(n) // as if spread evenly over the bucket, by the logarithm
			return float32(math.Exp2(float64(b-3) + float64(in)))
		}
		sum += float32(n)
	}
	return float32(math.Exp2(stayBuckets - 3))
}

// within is the share of the stays in a range of buckets.
func (t *trail) within(from, below int) float32 {
	var sum float32
	for b := from; b < below; b++ {
		sum += float32(t.stays[b])
	}
	return sum / float32(t.nStays)
}
