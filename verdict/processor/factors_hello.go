package processor

import "antirobot/verdict/client"

// helloEvidence is what the handshake of an event says.
type helloEvidence struct {
	company group // clients with the same handshake
	agents  group // and their User-Agents
}

// greeted returns a value that only a known handshake has.
func greeted(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.e.JA4 == 0 {
			return nan
		}
		return f(c)
	}
}

// answersBehind is in milliseconds.
func answersBehind(c *evidence) float32 {
	if c.e.Lag == 0 {
		return nan
	}
	return c.e.Lag.Milliseconds()
}

// helloFalse reports a handshake that the claimed browser does not make. If all browsers of the service come with such
// handshakes, something in front of the gateway makes them.
func helloFalse(c *evidence) float32 {
	if !c.e.Claim.Family.Browser() || c.losses()&client.FalseHello != 0 {
		return nan
	}
	return truth(c.e.Misfits&client.FalseHello != 0)
}

func theHello(c *evidence) *group { return &c.hello.company }

// helloMissingParts is missingParts of all clients with the handshake.
func helloMissingParts(c *evidence) float32 {
	g := theHello(c)
	if g.loads < 20 {
		return nan
	}
	return max(0, 1-g.parts/g.loads/usualParts(c))
}
