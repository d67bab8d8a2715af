package processor

import (
	"math"
	"math/bits"

	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// factors is the one list of them; the order is that of the vector. A model is read by the names, so an entry may move,
// but a name never changes its meaning. `antirobot formula factors` prints it.
var factors = []factor{
	// pace
	{factorInfo{"pages_1s", Pace, "pages", "Pages in the last second. Counts of pages fade: a steady pace of r pages a second counts r times the span.", true}, pages(0)},
	{factorInfo{"pages_10s", Pace, "pages", "Pages in the last ten seconds.", true}, pages(1)},
	{factorInfo{"pages_1m", Pace, "pages", "Pages in the last minute.", true}, pages(2)},
	{factorInfo{"pages_10m", Pace, "pages", "Pages in the last ten minutes.", true}, pages(3)},
	{factorInfo{"pages_1h", Pace, "pages", "Pages in the last hour.", true}, pages(4)},
	{factorInfo{"pages_1d", Pace, "pages", "Pages in the last day.", true}, pages(5)},
	{factorInfo{"client_pages_1h", Pace, "pages", "Pages in an hour for each client.", true}, perClient(4)},
	{factorInfo{"client_loads_1m", Pace, "pages", "Page loads in a minute for each client: pages without those that scripts ask for, and without answers in JSON or XML.", true}, loads(2)},
	{factorInfo{"client_loads_10m", Pace, "pages", "Page loads in ten minutes for each client.", true}, loads(3)},
	{factorInfo{"client_loads_1h", Pace, "pages", "Page loads in an hour for each client.", true}, loads(4)},
	{factorInfo{"client_loads_1d", Pace, "pages", "Page loads in a day for each client.", true}, loads(5)},
	{factorInfo{"gap_spread", Pace, "", "How much these gaps differ: the standard deviation of their logarithm. A clock has 0, people 1 or more.", true}, func(c *evidence) float32 {
		if c.s.stable < 4 {
			return nan
		}
		return float32(math.Sqrt(float64(max(c.s.gapVar, 0))))
	}},
	{factorInfo{"session_age", Pace, "seconds", "Since the first event of the subject that memory has.", true}, func(c *evidence) float32 {
		if c.s.first == 0 {
			return nan
		}
		return float32(c.s.last - c.s.first)
	}},
	{factorInfo{"session_pages", Pace, "pages", "Pages since then.", true}, func(c *evidence) float32 { return float32(c.s.pages) }},
	{factorInfo{"stay_typical", Pace, "seconds", "How long it stays on a page, reloads or not: the median, of those under half an hour. Another query is another page, and so is what a script shows at another address of the site. Who turns to the next picture of a series by a link has not left what it looks at.", true}, stays(func(t *trail) float32 { return t.quantile(0.5) })},
	{factorInfo{"stay_spread", Pace, "", "The standard deviation of the logarithm of these times.", true}, stays(func(t *trail) float32 { return t.sums.spread() })},
	{factorInfo{"stay_spread_most", Pace, "", "The spread that it has at most, with a certainty of 95 %: few times may be even by chance.", true}, stays(spreadMost)},
	{factorInfo{"stay_long_share", Pace, "share", "Stays over a minute.", true}, stays(func(t *trail) float32 { return t.within(9, stayBuckets) })},
	{factorInfo{"stay_longest", Pace, "seconds", "The longest.", true}, stays(func(t *trail) float32 { return t.longest })},
	{factorInfo{"stay_longest_ratio", Pace, "", "The longest for each typical one.", true}, stays(longestOver)},
	{factorInfo{"stay_by_kind", Pace, "log odds", "How much likelier its times are if it stays longer on kinds of pages (paths of one shape) on which others do than if all pages are alike to it: -6 to 6; near 0 where nobody makes a difference.", true}, func(c *evidence) float32 { return c.t.dwell.Odds(enoughStays) }},
	{factorInfo{"awake", Pace, "hours", "For how long it has gone on without a rest of five hours. Reloads are a rest.", true}, walked(2, awake)},
	{factorInfo{"visits", Pace, "", "Runs of page loads with no half hour without, as are hours in which one page reloads.", true}, walked(2, func(t *trail) float32 { return float32(t.visits) })},
	{factorInfo{"return_typical", Pace, "hours", "The geometric mean of the times between its visits.", true}, returns(1, func(m *moments) float32 { return float32(math.Exp(float64(m.mean))) })},
	{factorInfo{"return_spread_most", Pace, "", "The standard deviation of the logarithm of these times, at most, with a certainty of 95 %. The nights of people are longer than their breaks; a program returns by the clock.", true}, returns(3, func(m *moments) float32 { return m.spreadMost() })},
	{factorInfo{"visit_pages", Pace, "pages", "Page loads of a visit, on average, with reloads.", true}, walked(2, func(t *trail) float32 { return float32(t.loads) / float32(max(t.visits, 1)) })},
	{factorInfo{"visit_hours", Pace, "hours", "For how long its visit has gone on without a break of half an hour. Reloads are a break.", true}, walked(2, func(t *trail) float32 { return float32(t.came-t.began) / 3600_000 })},
	{factorInfo{"visit_longest", Pace, "pages", "Page loads of its longest visit, without reloads.", true}, walked(2, func(t *trail) float32 { return float32(t.most) })},

	// course
	{factorInfo{"targets", Course, "", "Different URLs, queries included; no more than about 260 are told apart.", true}, func(c *evidence) float32 { return distinct(c.s.targets, 64) }},
	{factorInfo{"target_share", Course, "share", "Different URLs for each page, over the last hundred pages or so.", true}, func(c *evidence) float32 { return c.s.targetShare() }},
	{factorInfo{"parts_per_page", Course, "", "Sub-resources (pictures, styles, scripts) for each page.", true}, func(c *evidence) float32 { return over(float32(c.s.parts), float32(c.s.pages)) }},
	{factorInfo{"parts_missing", Course, "share", "How far it is behind the others at the service in asking for sub-resources: 0 as many, 1 none. Unknown in the first pages, and where the service has its parts elsewhere.", true}, missingParts},
	{factorInfo{"referer_none_share", Course, "share", "Pages without Referer, of its pages.", true}, refererNone},
	{factorInfo{"referer_same_share", Course, "share", "Pages whose Referer is of the site, of its pages.", true}, withOwnReferers(part(shareRefererSame, shareCount, 2))},
	{factorInfo{"referer_known_share", Course, "share", "Page loads whose Referer is one of the eight pages before, of its loads.", true}, withOwnReferers(part(shareRefererKnown, shareLoad, 2))},
	{factorInfo{"referer_foreign_share", Course, "share", "Pages whose Referer is of another site or no URL, of its pages.", true}, withReferers(part(shareRefererForeign, shareCount, 2))},
	{factorInfo{"refused_share", Course, "share", "Answers with a status of 400 to 499.", false}, part(share4xx, shareAnswered, 4)},
	{factorInfo{"not_found_share", Course, "share", "Answers with 404 or 410.", false}, part(shareNotFound, shareAnswered, 4)},
	{factorInfo{"not_modified_share", Course, "share", "Answers with 304: the client has a cache.", false}, part(shareNotModified, shareAnswered, 4)},
	{factorInfo{"data_share", Course, "share", "Answers in JSON or XML.", false}, part(shareData, shareAnswered, 2)},
	{factorInfo{"probes", Course, "", "Requests for what scanners look for (/.env, /wp-login.php) that found nothing, of the last 255 pages.", false}, func(c *evidence) float32 {
		if c.s.shares[shareAnswered] == 0 {
			return nan
		}
		return float32(c.s.shares[shareProbe])
	}},
	{factorInfo{"head_share", Course, "share", "Requests with HEAD, of its pages.", true}, part(shareHead, shareCount, 2)},
	{factorInfo{"post_share", Course, "share", "Requests with POST, PUT or PATCH, of its pages.", true}, part(sharePost, shareCount, 2)},
	{factorInfo{"robots_txt", Course, "0 or 1", "Has asked for /robots.txt, as no browser does.", true}, func(c *evidence) float32 { return truth(c.s.flags&flagRobots != 0) }},
	{factorInfo{"feed_share", Course, "share", "Requests for feeds and site maps, of its pages.", true}, part(shareFeed, shareCount, 2)},
	{factorInfo{"step_share", Course, "share", "Page loads whose number is next to that of the load before (page=3, page=4), of its loads with a number; without those of numbers up to 200 that a link of the page before has led to, as those of people who turn pages.", true}, part(shareStep, shareNumbered, 6)},
	{factorInfo{"number_share", Course, "share", "Page loads with a number in their URL, of its loads.", true}, part(shareNumbered, shareLoad, 4)},
	{factorInfo{"load_share", Course, "share", "Page loads, of its pages.", true}, part(shareLoad, shareCount, 2)},
	{factorInfo{"load_typed_share", Course, "share", "Page loads that no page has led to (Sec-Fetch-Site: none), of its loads that say so.", true}, part(shareTyped, shareSited, 3)},
	{factorInfo{"unclicked_share", Course, "share", "Pages of the site that a page of it has led to, but nobody has clicked or pressed a key for (no Sec-Fetch-User), of those that are new to it: a script has opened them. Unknown with fewer than six, and for browsers that say no such thing (Safari).", true}, ofThese(moveAlone, moveLed)},
	{factorInfo{"uncached_share", Course, "share", "Pages that it wants from no cache (Pragma), though they are new to it, as a browser does whose requests a driver intercepts or a developer looks at. Unknown with fewer than six, and like the one before.", true}, ofThese(moveForce, moveAnew)},
	{factorInfo{"revisit_share", Course, "share", "Page loads of a page that it has seen, reloads among them.", true}, revisits},
	{factorInfo{"branch_share", Course, "share", "Page loads from an earlier one of the last sixteen.", true}, led(moves(moveBranch))},
	{factorInfo{"jump_share", Course, "share", "Page loads from a page of the site that it has not loaded lately.", true}, led(moves(moveJump))},
	{factorInfo{"entry_share", Course, "share", "Page loads that no page of the site has led to.", true}, led(moves(moveEntry))},
	{factorInfo{"entry_within", Course, "share", "Page loads in the middle of a visit that no page of the site has led to. Unknown for who names no page as its Referer for the parts of pages either.", true}, led(entersWithin)},
	{factorInfo{"fan", Course, "", "Page loads for each page of the site that led to any.", true}, led(walked(6, fan))},
	{factorInfo{"count_share", Course, "share", "Numbers in targets that are next to the one before, calls of scripts included, and pages that it turns left out, as for step_share.", true}, steps},

	// client
	{factorInfo{"agent_missing", Client, "0 or 1", "No User-Agent. Unknown where nobody sends one, because a balancer does not pass it on.", true}, func(c *evidence) float32 {
		if c.lost.Agent {
			return nan
		}
		return truth(c.e.Claim.Family == client.FamilyNone)
	}},
	{factorInfo{"agent_library", Client, "0 or 1", "Claims to be an HTTP library or a command line tool.", true}, claims(func(f client.Family) bool { return f == client.FamilyLibrary })},
	{factorInfo{"agent_robot", Client, "0 or 1", "Declares itself a robot.", true}, claims(func(f client.Family) bool { return f == client.FamilyRobot })},
	{factorInfo{"agent_crawler", Client, "0 or 1", "Declares a search engine's crawler that it is not: the DNS or the published ranges say so. Unknown while nobody can tell.", true}, func(c *evidence) float32 {
		if c.e.Claim.Family == client.FamilyCrawler && !c.e.Liar {
			return nan
		}
		return truth(c.e.Liar)
	}},
	{factorInfo{"agent_headless", Client, "0 or 1", "Claims to be a browser without a window.", true}, claims(func(f client.Family) bool { return f == client.FamilyHeadless })},
	{factorInfo{"agent_app", Client, "0 or 1", "Claims to be a library of mobile apps.", true}, claims(func(f client.Family) bool { return f == client.FamilyApp })},
	{factorInfo{"agent_other", Client, "0 or 1", "Claims to be something unknown.", true}, claims(func(f client.Family) bool { return f == client.FamilyOther })},
	{factorInfo{"agent_browser", Client, "0 or 1", "Claims to be a browser that people use.", true}, claims(client.Family.Browser)},
	{factorInfo{"version_age", Client, "versions", "By how many versions a Chromium or Firefox is behind the newest one of its time; well below 0: it can't be out yet.", true}, versionAge},
	{factorInfo{"encoding_missing", Client, "0 or 1", "No Accept-Encoding, whatever it claims to be.", true}, fields(func(c *evidence) float32 { return truth(c.e.Headers&client.HasAcceptEncoding == 0) })},
	{factorInfo{"browser_no_language", Client, "0 or 1", "Claims to be a browser, and sends no Accept-Language.", true}, misfit(client.NoLanguage)},
	{factorInfo{"browser_accepts_any", Client, "0 or 1", "Claims to be a browser, and loads a page with Accept: */* or none.", true}, misfit(client.AcceptsAny)},
	{factorInfo{"fetch_missing", Client, "0 or 1", "Claims a browser that sends Sec-Fetch fields over https, and sends none.", true}, misfit(client.NoFetch)},
	{factorInfo{"fetch_false", Client, "0 or 1", "Sec-Fetch fields that contradict each other.", true}, misfit(client.FalseFetch)},
	{factorInfo{"hints_missing", Client, "0 or 1", "Claims a browser that sends Sec-CH-UA over https, and sends none.", true}, misfit(client.NoHints)},
	{factorInfo{"hints_false", Client, "0 or 1", "Sec-CH-UA of another browser, version or system than User-Agent.", true}, misfit(client.FalseHints)},
	{factorInfo{"order_false", Client, "0 or 1", "The fields of a page load in an order that the claimed browser never uses.", true}, misfit(client.FalseOrder)},
	{factorInfo{"protocol_old", Client, "0 or 1", "Claims to be a browser, and speaks HTTP/1.0 with us directly.", true}, misfit(client.OldProtocol)},
	{factorInfo{"hello_false", Client, "0 or 1", "Claims to be a browser, and makes the TLS handshake of a library that no browser is built with.", true}, greeted(helloFalse)},
	{factorInfo{"misfits", Client, "", "How many of these contradictions the request has.", true}, func(c *evidence) float32 {
		if c.e.Partial || !c.e.Claim.Family.Browser() {
			return nan
		}
		return float32(bits.OnesCount16(uint16(c.e.Misfits &^ c.losses())))
	}},
	{factorInfo{"cookie_share", Client, "share", "Pages with our cookie, young or old, of its pages.", true}, withCookies(part(shareCookie, shareFields, 2))},
	{factorInfo{"cookie_dropped_share", Client, "share", "Page loads of a browser that comes without the cookie it has been given, of its navigations after the first.", true}, cookieDropped},
	{factorInfo{"cookie_age", Client, "hours", "Age of our cookie. Unknown without one.", true}, func(c *evidence) float32 {
		if c.e.IAge < 0 || c.e.Partial {
			return nan
		}
		return float32(c.e.IAge) / 3600
	}},
	{factorInfo{"cookies_forged", Client, "0 or 1", "Has brought a cookie in our name whose seal does not open.", true}, fields(func(c *evidence) float32 { return truth(c.e.Forged > 0 || c.s.flags&flagForged != 0) })},
	{factorInfo{"proxy_fields", Client, "0 or 1", "Fields of proxies (Via, X-Forwarded-For) that no trusted proxy has sent.", true}, fields(func(c *evidence) float32 { return truth(c.e.Direct && c.e.Headers&client.HasForwarded != 0) })},
	{factorInfo{"agents", Client, "", "Different User-Agents of the subject, in this hour or the one before.", true}, func(c *evidence) float32 { return max(distinct(c.s.agents, 64), float32(c.s.agentsPrev)) }},
	{factorInfo{"subject_strength", Client, "0 to 3", "By what it is known: 0 an address, 1 a cookie, 2 a pass, 3 a login or the service's own cookie.", true}, strength},
	{factorInfo{"page_automation", Client, "0 or 1", "Its pages have found traces of automation: navigator.webdriver, or a driver's own names. Unknown, like the other page factors, unless the service has the script (docs/detection.md) and it has run.", true}, witnessed(func(t *testimony) float32 { return truth(t.probes&request.ProbesAutomation != 0) })},
	{factorInfo{"page_unpressed", Client, "0 or 1", "A mouse has pressed on its pages without pressure: a driver's events. Unknown, like the next two, where most browsers at the service do so.", true}, probed(request.ProbeUnpressed)},
	{factorInfo{"page_astray", Client, "0 or 1", "Its pointer was elsewhere on the screen than its window and the page are: a page of another size than its window, as drivers set it.", true}, probed(request.ProbeAstray)},
	{factorInfo{"page_inspected", Client, "0 or 1", "An inspector is attached to its pages: a driver's, or the tools of a developer.", true}, probed(request.ProbeInspected)},

	// company
	{factorInfo{"clients", Company, "", "Clients behind the subject: User-Agents or cookies of ours, whichever are more, or, without cookies at an address, one for eight people who are known there; as far as they load the parts of pages.", true}, func(c *evidence) float32 { return c.clients() }},
	{factorInfo{"address_established", Company, "", "Subjects that its address has established: seen as human on two days.", true}, func(c *evidence) float32 { return float32(c.settled) }},

	// history
	{factorInfo{"captcha_failed", History, "", "Wrong answers.", true}, func(c *evidence) float32 { return float32(c.s.failed) }},
	{factorInfo{"captcha_ignored", History, "", "Challenges that were shown and never tried.", true}, func(c *evidence) float32 { return float32(c.s.ignored) }},
	{factorInfo{"bans", History, "", "Bans of the subject itself.", true}, func(c *evidence) float32 { return float32(c.s.bans) }},
}

// maxFactors bounds the vector, so that it can stand in an array.
const maxFactors = 224

// vector is the factors of one evaluation, and what it needs on the way: it is pooled, so that none of it is allocated.
// NaN is unknown.
type vector struct {
	x, amounts [maxFactors]float32
	scene      evidence
	event      verdict.Event // of the inline judge
}

// measure computes the factors; before the answer only the cheap ones.
func (v *vector) measure(cheap bool) []float32 {
	for i := range factors {
		if f := &factors[i]; cheap && !f.Cheap {
			v.x[i] = nan
		} else {
			v.x[i] = f.of(&v.scene)
		}
	}
	return v.x[:len(factors)]
}

// DescribeFactors calls f with each factor in the order of the vector: its name, its group, its unit and what it is.
func DescribeFactors(f func(name string, of Group, unit, doc string)) {
	for i := range factors {
		f(factors[i].Name, factors[i].Group, factors[i].Unit, factors[i].Doc)
	}
}

// FactorNames returns the names in the order of the vector: what a formula is loaded with.
func FactorNames() []string {
	names := make([]string, len(factors))
	for i := range factors {
		names[i] = factors[i].Name
	}
	return names
}
