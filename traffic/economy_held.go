package traffic

import (
	"fmt"
	"net/netip"
	"time"
)

// heldSolvers are harvesters that answer captchas, by which no constant of the price was set: they are few in some networks,
// or many that share little, keep their cookies, load parts, or differ in how fast they answer.
func heldSolvers() []Make {
	list := []Make{
		{
			Name: "held-solver-jar", Does: "one address with three browsers that keep cookies and load parts, a page in ten seconds; digits in four", Bar: solverBar,
			clients: 3, pace: 10 * time.Second, parts: true, solves: solves{digits: 4 * time.Second}, dress: jar, ask: pageOf,
		},
		{
			Name: "held-solver-racks", Does: "thirty addresses in ten /24s, a page in fifteen seconds; digits in six", Bar: hundredBar,
			clients: 30, pace: 15 * time.Second, solves: solves{digits: 6 * time.Second}, ask: pageOf,
			dress: func(_ *world, c *client) {
				c.address = fixed(netip.AddrFrom4([4]byte{45, 131, byte(c.number % 10 * 7), byte(40 + c.number)}))
			},
		},
		{
			Name: "held-solver-phones", Does: "two hundred IPv6 households of as many /40s that load parts, a page in eight minutes; digits in twelve seconds", Bar: hundredBar,
			clients: 200, pace: 8 * time.Minute, parts: true, solves: solves{digits: 12 * time.Second}, ask: pageOf,
			dress: func(_ *world, c *client) {
				c.cookies = true
				c.address = fixed(netip.AddrFrom16([16]byte{0x2a, 0x01, 0x48, byte(c.number), byte(c.number * 3), 0x21, 0, byte(c.number), 15: 9}))
			},
		},
		{
			Name: "held-solver-calls", Does: "fifty households that ask for pages as scripts, two a minute; digits in two seconds", Bar: hundredBar,
			clients: 50, pace: 30 * time.Second, solves: solves{digits: 2 * time.Second}, dress: household, ask: as(destFetch, ""),
		},
	}
	for i := range list {
		list[i].Held, list[i].Solves = true, true
	}
	return list
}

// heldSeedOfPeople is added to the seed of the people alongside held-out harvesters.
const heldSeedOfPeople = 1_000_003

// HeldMakes returns harvesters by which no constant of the budget was set. They run alongside people with a seed by
// which none was set either. Look at what they get, and change nothing because of it: a make for which something is
// changed has to move to Makes.
func HeldMakes() []Make {
	one := func(name, does string, bar float64, pace time.Duration, dress func(*world, *client), ask func(*client, int) planned) Make {
		return Make{Name: name, Does: does, Bar: bar, Held: true, clients: 1, pace: pace, dress: dress, ask: ask}
	}
	item := func(d dest) func(*client, int) planned {
		return func(_ *client, n int) planned { return planned{path: fmt.Sprintf("/api/item/%d", n+1), dest: d} }
	}
	return append(heldSolvers(), []Make{
		one("held-curl", "curl at four a second, items as JSON", householdBar, time.Second/4, func(_ *world, c *client) {
			c.address = fixed(theHousehold)
			c.browser = tool("User-Agent", "curl/8.5.0", "Accept", "*/*")
		}, item(destPage)),
		one("held-script", "items as JSON, by a page's script, one a second", householdBar, time.Second, oneAddress, item(destFetch)),
		one("held-app", "items as JSON, by the name of an app, one a second", householdBar, time.Second, app, item(destPage)),
		one("held-style", "pages that call themselves a style of the page before", householdBar, 3*time.Second, oneAddress, func(_ *client, n int) planned {
			return planned{path: productPath(n), dest: destStyle, ref: "https://shop.example" + productPath(n+1)}
		}),
		{
			Name: "held-net", Does: "sixty addresses of a /24, a page in five minutes from each", Bar: networkBar, Held: true, clients: 60, pace: 5 * time.Minute,
			dress: func(_ *world, c *client) {
				c.address = fixed(netip.AddrFrom4([4]byte{93, 185, 7, byte(20 + c.number)}))
			}, ask: pageOf,
		},
		{
			Name: "held-office-third", Does: "thirty cookie jars at the address of an office that load one in three parts, a page in forty seconds from each", Bar: networkBar, Held: true, Long: true,
			clients: 30, pace: 40 * time.Second, vary: true, parts: true, oneIn: 3, dress: jarInOffice, ask: pageOf,
		},
		{
			Name: "held-office-fresh", Does: "ten there that load all parts, and take another jar after five pages", Bar: networkBar, Held: true, Long: true,
			clients: 10, pace: 10 * time.Second, vary: true, parts: true, fresh: 5, dress: jarInOffice, ask: pageOf,
		},
		{
			Name: "held-street", Does: "forty IPv6 households of a /40, a page in two minutes from each", Bar: networkBar, Held: true, clients: 40, pace: 2 * time.Minute,
			dress: func(_ *world, c *client) {
				c.address = fixed(netip.AddrFrom16([16]byte{0x2a, 0x0c, 0x11, 0x20, 0x40, byte(c.number), 0, 0x31, 15: 1}))
			}, ask: pageOf,
		},
	}...)
}
