package verdict

import (
	"encoding/binary"
	"math"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Clients of an address that load no parts of their pages, as the site's people do, are listed one by one by the slow half. A question or a
// ban may be for those that are listed, whoever else is there. One that finds no room (Config.MaxBareClients) counts with the others of its
// address.

// OnlyBare is each client of the address that is listed, in the place of one client (Question.Only, bans.Ban.Only).
const OnlyBare uint32 = math.MaxUint32

// ListBare lists a client (Event.Client), which names its address as well, until a time; a time that is over takes it back.
func (c *Cacher) ListBare(client uint32, until time.Time) {
	c.takeBare(client, until)
	if c.said.tells() {
		body := binary.BigEndian.AppendUint32(nil, client)
		c.said.tell(saidBareClient, binary.BigEndian.AppendUint64(body, uint64(until.Add(c.skewNow()).UnixMilli()))) //nolint:gosec // after 1970
	}
}

func (c *Cacher) takeBare(client uint32, until time.Time) {
	if until.After(c.now()) {
		c.bareClients.Put(client, until, struct{}{})
	} else {
		c.bareClients.Remove(client)
	}
}

func (c *Cacher) heardBareClient(b []byte) bool {
	if len(b) != 4+8 {
		return false
	}
	c.takeBare(binary.BigEndian.Uint32(b), c.heardTime(b[4:]))
	return true
}

// isClient reports whether a request comes from the client that alone is asked or banned.
func (c *Cacher) isClient(only uint32, v *request.View, id *identity.Identity) bool {
	client := clientOf(id, v)
	if only != OnlyBare {
		return only == client
	}
	_, _, ok := c.bareClients.Find(client, v.At.UnixNano())
	return ok
}
