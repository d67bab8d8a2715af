package verdict

import (
	"encoding/binary"

	"antirobot/identity"
	"antirobot/request"
)

// A newcomer who loads nothing of its page is known for it before it opens the next one. Where others who arrive as it did turned out to be
// robots, it is asked then, also if too many people arrive so as that all who do might be asked.

// maxBack bounds the table of those who are asked when they come back.
const maxBack = 1 << 12

// askBack records whom a Campaign is for, or that it is over.
func (c *Cacher) askBack(x *Campaign) {
	c.takeBack(x)
	if c.said.tells() {
		c.said.tell(saidBack, c.appendCampaign(binary.BigEndian.AppendUint32(nil, x.Client), x))
	}
}

func (c *Cacher) takeBack(x *Campaign) {
	if x.Until.After(c.now()) {
		c.back.put(x.Client, x.Until, *x)
	} else {
		c.back.remove(x.Client)
	}
}

func (c *Cacher) heardBack(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	x, ok := c.readCampaign(b[4:])
	if x.Client = binary.BigEndian.Uint32(b); !ok || x.Client == 0 {
		return false
	}
	c.takeBack(&x)
	return true
}

// comesBack returns the campaign for which a client is asked that comes back.
func (c *Cacher) comesBack(v *request.View, id *identity.Identity) (x Campaign, ok bool) {
	if c.back.n.Load() == 0 {
		return x, false
	}
	x, _, ok = c.back.find(clientOf(id, v), v.At.UnixNano())
	return x, ok
}
