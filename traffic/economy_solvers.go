package traffic

import (
	"net/netip"
	"time"
)

// Harvesters that answer captchas: they read each picture rightly, and do the browser's work in native code.

// solverBar is the largest share of the shop that one address may get in a day by solving.
const solverBar = 2 * householdBar

// Solvers returns them, in the order of the tables.
func Solvers() []Make {
	at := func(name, does string, clients int, pace time.Duration, bar float64, dress func(*world, *client), ask func(*client, int) planned) Make {
		return Make{
			Name: "solver-" + name, Does: does, Bar: bar, Solves: true, clients: clients, pace: pace, dress: dress, ask: ask,
			solves: solves{digits: recognition},
		}
	}
	one := func(name, does string, pace time.Duration, ask func(*client, int) planned) Make {
		return at(name, does, 1, pace, solverBar, oneAddress, ask)
	}
	with := func(m Make, edit func(m *Make)) Make { edit(&m); return m }
	second := 100 * time.Millisecond
	rotated := func(name string, bits int, bar float64) Make {
		return at(name, "another address of its network for each page", 1, second, bar, rotating(bits), pageOf)
	}
	return []Make{
		one("browser", "one address; reads the digits in a millisecond, ten pages a second", second, pageOf),
		one("image", "the same, Sec-Fetch-Dest: image and answers of type text/csv", second, func(_ *client, n int) planned {
			return planned{path: productPath(n) + "?as=csv", dest: destImage}
		}),
		with(one("slow", "reads the digits in eight seconds, a page in twenty", 20*time.Second, pageOf), func(m *Make) {
			m.solves.digits, m.Bar = 8*time.Second, solverBar*shopPages/4320 // of the shop, not of what it asks for
		}),
		with(at("parts", "two browsers behind one address that keep cookies and load parts, a page in five seconds from each; digits in eight", 2, 5*time.Second, solverBar, jar, pageOf), func(m *Make) {
			m.solves.digits, m.parts = 8*time.Second, true
		}),
		with(one("works", "does the browser's work in native code", second, pageOf), func(m *Make) { m.solves.works, m.Long = true, true }),
		with(one("week", "the browser, for seven days: each day's share", second, pageOf), func(m *Make) { m.Days, m.Long = 7, true }),
		with(at("colleague", "at the address of an office, whose people pay for it", 1, second, networkBar, inOffice, pageOf), func(m *Make) { m.Long = true }),
		with(at("aged", "forty-one i cookies behind its address, made the day before: from midnight on they are farmed", 41, 4*time.Second, networkBar, aged, pageOf), func(m *Make) { m.Early = true }),
		with(at("farm", "forty-one i cookies, each seen with a page and its parts on two days", 41, 4*time.Second, networkBar, farmed, pageOf), func(m *Make) { m.Early = true }),
		rotated("ipv6-64", 64, solverBar), rotated("ipv6-56", 56, networkBar), rotated("ipv6-48", 48, networkBar), rotated("ipv6-32", 32, 8*solverBar),
		at("net", "a /24, a page a minute from each of a hundred addresses", 100, time.Minute, 8*solverBar, func(_ *world, c *client) {
			c.address = fixed(netip.AddrFrom4([4]byte{93, 184, 42, byte(20 + c.number)}))
		}, pageOf),
		at("100", "a hundred household addresses, a page a minute from each", 100, time.Minute, hundredBar, household, pageOf),
		with(at("100-slow", "the same, and reads the digits in eight seconds", 100, time.Minute, hundredBar, household, pageOf), func(m *Make) { m.solves.digits = 8 * time.Second }),
		with(at("100-parts", "the same, and loads the parts of each page", 100, time.Minute, hundredBar, household, pageOf), func(m *Make) { m.solves.digits, m.parts = 8*time.Second, true }),
		with(at("100-cookies", "the same, and keeps cookies", 100, time.Minute, hundredBar, keeping, pageOf), func(m *Make) {
			m.solves.digits, m.parts = 8*time.Second, true
		}),
		with(at("established", "a hundred households, each seen with a page and its parts on two days; eight seconds", 100, time.Minute, hundredBar, established, pageOf), func(m *Make) {
			m.solves.digits, m.Early = 8*time.Second, true
		}),
		with(at("shared", "a hundred household addresses with one pass for all", 100, time.Minute, hundredBar, household, pageOf), func(m *Make) { m.solves.shared = true }),
		with(at("1000", "a thousand household addresses, a page in ten minutes from each", 1000, 10*time.Minute, 1, household, pageOf), func(m *Make) { m.Long = true }),
	}
}

// keeping is a household that keeps cookies.
func keeping(w *world, c *client) {
	household(w, c)
	c.cookies = true
}

// inOffice is at the address of the office's people.
func inOffice(_ *world, c *client) { c.address = fixed(officeAddress) }
