package admin

import "time"

// maxEntry bounds the text of a list entry.
const maxEntry = 2 << 10

func (s *Server) listSources(*call) (any, error) {
	if s.deps.Lists == nil {
		return nil, absentPart("the block base")
	}
	return listed[Source]{Items: s.sources()}, nil
}

// sources adds the ages to what the block base says.
func (s *Server) sources() []Source {
	src := s.deps.Lists.Sources()
	out := make([]Source, len(src))
	at := s.now()
	for i, v := range src {
		v.Age = -1
		if !v.Loaded.IsZero() {
			v.Age = at.Sub(v.Loaded).Round(time.Millisecond).Seconds()
		}
		out[i] = v
	}
	return out
}

// list checks the name of a list in the path.
func (s *Server) list(c *call) (string, error) {
	if s.deps.Lists == nil {
		return "", absentPart("the block base")
	}
	switch c.arg {
	case "block", "ban", "white":
		return c.arg, nil
	}
	return "", notFound("there is no list %q; the lists are block, ban and white", c.arg)
}

func (s *Server) listEntries(c *call) (any, error) {
	list, err := s.list(c)
	if err != nil {
		return nil, err
	}
	p, err := newPage[Entry](c)
	if err != nil {
		return nil, err
	}
	s.deps.Lists.EachEntry(list, func(e Entry) bool {
		p.offer(e.Entry, e)
		return true
	})
	items, next := p.take()
	return listed[Entry]{items, next}, nil
}

func (s *Server) addEntry(c *call) (any, error) {
	list, err := s.list(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Entry  string `json:"entry"`
		TTL    string `json:"ttl"`
		Reason string `json:"reason"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	if in.Entry == "" || len(in.Entry) > maxEntry {
		return nil, badField("entry", "give an address, a network, a range or kind:id of at most %d bytes", maxEntry)
	}
	e := Entry{Entry: in.Entry, Reason: in.Reason, Made: s.second()}
	if in.TTL != "" {
		if e.Until, err = s.until(in.TTL); err != nil {
			return nil, err
		}
	}
	if err := checkReason(in.Reason); err != nil {
		return nil, err
	}
	if e, err = s.deps.Lists.Add(c.work, list, e); err != nil {
		return nil, err
	}
	s.log.Info().Str("list", list).Str("entry", e.Entry).Time("until", e.Until).Str("reason", e.Reason).Msg("list entry made over the api")
	return e, nil
}

func (s *Server) removeEntry(c *call) (any, error) {
	list, err := s.list(c)
	if err != nil {
		return nil, err
	}
	entry := string(c.QueryArgs().Peek("entry"))
	if entry == "" || len(entry) > maxEntry {
		return nil, badField("entry", "name the entry to remove: ?entry=203.0.113.0/24")
	}
	was, err := s.deps.Lists.Remove(c.work, list, entry)
	if err != nil {
		return nil, err
	}
	if !was {
		return nil, notFound("%s is no run-time entry of the list %s; entries of files and URLs are removed there", entry, list)
	}
	s.log.Info().Str("list", list).Str("entry", entry).Msg("list entry removed over the api")
	return struct {
		Removed string `json:"removed"`
	}{entry}, nil
}
