package traffic

import (
	"fmt"
	"net/netip"
	"slices"

	"antirobot/request"
)

// Where harvesters are, and what they keep.

func fixed(a netip.Addr) func(*client) netip.Addr { return func(*client) netip.Addr { return a } }

// theHousehold is the location of harvesters with one address.
var theHousehold = netip.AddrFrom4([4]byte{93, 184, 40, 7})

func oneAddress(_ *world, c *client) { c.address = fixed(theHousehold) }

func app(_ *world, c *client) {
	c.address = fixed(theHousehold)
	c.browser = tool("Accept", "*/*", "Accept-Language", "en-GB,en;q=0.9", "Connection", "keep-alive", "Accept-Encoding", "gzip, deflate, br",
		"User-Agent", "Shop/412 CFNetwork/1568.200.51 Darwin/24.1.0")
}

// rotating gives each request another address of a single network.
func rotating(bits int) func(*world, *client) {
	return func(_ *world, c *client) {
		c.nomad = bits < 64
		c.address = func(c *client) netip.Addr {
			b := [16]byte{0x2a, 0x05, 0xd0, 0x14, 0x00, 0x20, 0x31, 0x40}
			n := uint64(c.count) * 0x9e3779b97f4a7c15 // spread over the network
			for bit := bits; bit < 128; bit++ {
				mask := byte(0x80 >> (bit % 8))
				b[bit/8] &^= mask
				if n>>(63-(bit-bits)%64)&1 == 1 {
					b[bit/8] |= mask
				}
			}
			return netip.AddrFrom16(b)
		}
	}
}

// bursts requests forty pages from one address of a /24, and continues from the next.
func bursts(_ *world, c *client) {
	c.nomad = true
	c.address = func(c *client) netip.Addr { return netip.AddrFrom4([4]byte{93, 184, 41, byte(c.count / 40 % 256)}) }
}

func jar(_ *world, c *client) {
	c.address, c.cookies = fixed(theHousehold), true
}

// jarInOffice is a jar at the address of an office, that of another browser's user there.
func jarInOffice(w *world, c *client) {
	jar(w, c)
	inOffice(w, c)
}

func agents(_ *world, c *client) {
	c.address = fixed(theHousehold)
	c.fields = slices.Clone(c.fields)
	for i, f := range c.fields {
		if string(f.Name) == "User-Agent" {
			c.fields[i] = request.Field{Name: f.Name, Value: append(slices.Clip(f.Value), fmt.Sprintf(" Build/%d", c.number)...)}
		}
	}
}

// household is an address of its own, in a network of its own.
func household(_ *world, c *client) {
	c.address = fixed(netip.AddrFrom4([4]byte{byte(31 + c.number%50), byte(17 + c.number/50), byte(c.number * 53), 44}))
}

// renewJar throws cookies away that were used for long enough, or that are stopped; what they loaded stays in the cache.
func (c *client) renewJar(m *Make) {
	if m.fresh > 0 && (c.count%m.fresh == 0 || c.stops > 0) {
		c.iCookie, c.session = "", ""
	}
}

// thin leaves one in so many of the parts that are planned; 0: all.
func (c *client) thin(oneIn int) {
	part := 0
	c.plan = slices.DeleteFunc(c.plan, func(planned) bool {
		part++
		return oneIn > 0 && part > 1 && (part+c.count)%oneIn != 0
	})
}
