package traffic

import (
	"math"
	"time"
)

// Held out, as the others: look at the results, and change nothing because of them.

// inAnExtension is a language model that does a task in a browser which somebody has used for long: it reads a page as fast as the model does, and takes
// the links that the task needs.
func inAnExtension(w *world, c *client) {
	w.driven(c, "chrome-150-mac")
	c.scripted = true
	mean := 4 + 8*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration {
		return seconds(1.5 + mean*c.rng.ExpFloat64()*(0.5+c.rng.Float64()))
	}
	c.mind.back, c.mind.first, c.mind.pages = 0.15, 1.3, 20
	c.act = func(w *world, c *client) {
		if c.visit <= 0 && c.count > 0 {
			c.wait(c.between(5*time.Minute, 40*time.Minute))
			c.count = 0
			return
		}
		stroll(w, c)
	}
}

// byGaze is somebody who looks at a link for long enough: pages take longer, and few are opened.
func byGaze(w *world, c *client) {
	w.guest(c)
	w.choose(c, func(b *browser) bool { return b.family == chromium && !b.mobile })
	c.cookies, c.scripted = true, true
	c.mind.pages = 3 + 6*c.rng.Float64()
	pause := c.mind.pause
	c.mind.pause = func(c *client, page string) time.Duration {
		return pause(c, page) + seconds(4*math.Exp(0.4*c.rng.NormFloat64()))
	}
}

// bySwitch is somebody with one key: a mark walks from link to link at a pace of theirs until they press it.
func bySwitch(w *world, c *client) {
	w.guest(c)
	c.cookies = true
	c.mind.pages = 4 + 8*c.rng.Float64()
	step, pause := 0.8+1.2*c.rng.Float64(), c.mind.pause
	c.mind.pause = func(c *client, page string) time.Duration {
		return pause(c, page) + seconds(step*float64(3+c.rng.IntN(20)))
	}
}
