package journal

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
)

type buffers struct {
	val, key []byte
	notes    []*verdict.Note
}

const maxBatch = 512

func (j *Journal) flush() {
	all := j.buffers.notes[:0]
	for i := range j.shards {
		s := &j.shards[i]
		s.mu.Lock()
		notes := s.notes
		s.notes, s.spare = s.spare[:0], notes
		s.mu.Unlock()
		for k := range notes {
			all = append(all, &notes[k])
		}
	}
	slices.SortFunc(all, func(a, b *verdict.Note) int { return a.At.Compare(b.At) })
	j.buffers.notes = all
	for from := 0; from < len(all); from += maxBatch {
		j.writeNotes(all[from:min(from+maxBatch, len(all))])
	}
	for n := len(j.slow); n > 0; n = len(j.slow) {
		batch := make([]written, 0, min(n, maxBatch))
		for range min(n, maxBatch) {
			batch = append(batch, <-j.slow)
		}
		j.write(len(batch), func(b *pebblestore.LogBatch) {
			for i := range batch {
				j.put(b, &batch[i].row, batch[i].details, batch[i].also)
			}
		})
		if err := j.db.Sync(); err != nil { // they are few, and operators rely on them
			j.log.Warn().Err(err).Msg("journal: bans and acts may not outlast a crash")
		}
	}
}

func (j *Journal) writeNotes(notes []*verdict.Note) {
	batch := make([]written, len(notes))
	for i := range notes {
		batch[i] = j.told(notes[i])
		j.follow(notes[i], &batch[i].row)
	}
	j.countStopped(batch)
	j.write(len(batch), func(b *pebblestore.LogBatch) {
		for i := range batch {
			j.put(b, &batch[i].row, batch[i].details, batch[i].also)
		}
	})
}

var kinds = [...]Kind{
	verdict.EventRequest: KindRequest, verdict.EventShown: KindShown, verdict.EventSolved: KindSolved,
	verdict.EventFailed: KindFailed, verdict.EventEvidence: KindRequest,
}

func (j *Journal) told(n *verdict.Note) written {
	address := identity.AddrSubject(n.Addr).String()
	w := written{row: row{
		id: n.ID, kind: kinds[n.Kind], verdict: n.Verdict, cause: n.Cause, mode: n.Mode, status: n.Status,
		share: n.Share,
		took:  uint32(min(n.Took.Microseconds(), 1<<32-1)), //nolint:gosec // bounded
	}}
	if n.Paid {
		w.row.flags |= flagPaid
	}
	if n.Work {
		w.row.flags |= flagWork
	}
	t := &w.row.texts
	t[colService], t[colMethod], t[colPath], t[colAgent] = []byte(n.Service), n.Method(), n.Path(), n.Agent()
	t[colSubject], t[colAddress] = []byte(n.Subject.String()), []byte(n.Addr.String())
	story, ok := j.stories.Noted(n)
	if !ok {
		story = verdict.Story{
			RequestID: n.ID.String(), At: n.At.UTC(), Service: n.Service, Mode: n.Mode.String(),
			Method: string(n.Method()), Path: string(n.Path()), Verdict: n.Verdict.String(), Cause: n.Cause.String(),
			Subject: n.Subject.String(), Considered: []string{n.Subject.String()},
		}
	}
	if h := story.Handshake; h != nil {
		t[colJA4] = []byte(h.JA4)
	}
	t[colReason] = []byte(reasonOf(&story))
	if n.Trace != (verdict.Trace{}) {
		t[colTrace], story.Trace = n.Trace[:], n.Trace.String()
	}
	w.details = story
	for _, s := range append(story.Considered, address) {
		if s != string(t[colSubject]) {
			w.also = append(w.also, s)
		}
	}
	return w
}

// reasonOf names the list entry, rule, ban or pending challenge that decided.
func reasonOf(s *verdict.Story) string {
	switch {
	case s.Entry != nil:
		return strings.TrimSuffix(s.Entry.List+": "+s.Entry.Text, ": ")
	case s.Rule != "":
		return s.Rule
	case s.Ban != nil:
		return s.Ban.Reason
	case s.Excess != nil && s.Cause == verdict.CauseQuota.String():
		return s.Excess.Short()
	}
	return ""
}

func (j *Journal) put(b *pebblestore.LogBatch, r *row, details any, also []string) {
	f := &j.buffers
	f.val = appendRow(f.val[:0], r)
	b.Put(entryKey(spaceEntry, r.id, r.kind), f.val)
	if details != nil {
		text, err := json.Marshal(details)
		if err != nil {
			panic("BUG: a story does not encode: " + err.Error())
		}
		b.Put(entryKey(spaceDetails, r.id, r.kind), text)
	}
	number := dayOf(r.at())
	index := func(subject string) {
		if subject == "" {
			return
		}
		f.key = append(append(subjectKey(number, subject), r.id[:]...), byte(r.kind))
		b.Put(f.key, nil)
	}
	index(string(r.texts[colSubject]))
	for _, s := range also {
		index(s)
	}
}

// openKey identifies a pending challenge: an address, and the hash of a User-Agent.
type openKey struct {
	address string
	agent   uint64
}

type opened struct {
	id   request.ID
	till time.Time
}

const (
	openFor = 15 * time.Minute // a challenge without an answer was given up
	maxOpen = 65536
)

func (j *Journal) follow(n *verdict.Note, r *row) {
	if r.kind == KindRequest {
		return
	}
	k := openKey{string(r.texts[colAddress]), request.Hash(n.Agent())}
	switch was, is := j.open[k]; {
	case r.kind == KindSolved:
		delete(j.open, k)
	case r.kind == KindShown && is: // another picture of the same question
		was.till = n.At.Add(openFor)
		j.open[k] = was
	case r.kind == KindShown && len(j.open) < maxOpen:
		j.open[k] = opened{n.ID, n.At.Add(openFor)}
	}
}

func (j *Journal) abandon(at time.Time) {
	var over []request.ID
	for k, o := range j.open {
		if at.After(o.till) {
			over = append(over, o.id)
			delete(j.open, k)
		}
	}
	var batch []written
	for _, id := range over {
		key := entryKey(spaceEntry, id, KindShown)
		val, ok, err := j.db.Get(nil, key)
		var w written
		if err != nil || !ok || w.row.read(key, val) != nil {
			continue
		}
		w.row.kind = KindAbandoned
		batch = append(batch, w)
	}
	if len(batch) > 0 {
		j.write(len(batch), func(b *pebblestore.LogBatch) {
			for i := range batch {
				j.put(b, &batch[i].row, nil, []string{string(batch[i].row.texts[colAddress])})
			}
		})
	}
}
