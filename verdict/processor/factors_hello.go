package processor

import "antirobot/verdict/client"

// greeted returns a value that only a known handshake has.
func greeted(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.e.JA4 == 0 {
			return nan
		}
		return f(c)
	}
}

// helloFalse reports a handshake that the claimed browser does not make. If all browsers of the service come with such
// handshakes, something in front of the gateway makes them.
func helloFalse(c *evidence) float32 {
	if !c.e.Claim.Family.Browser() || c.losses()&client.FalseHello != 0 {
		return nan
	}
	return truth(c.e.Misfits&client.FalseHello != 0)
}
