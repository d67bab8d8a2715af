package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// The steps of a batch. Each remembers by itself how far it is: the uniques that grow are on other servers than the pairs
// that say so.
const (
	stepPairs   = "p"
	stepUniques = "u"
	stepAdds    = "a"
)

// Count implements store.Repeatable. The increments of a step that share a tag are made by one script, which also notes the
// batch's number, and for pairs which of them were zero: so whatever is sent again gets the same answer.
func (c *Counters) Count(ctx context.Context, b *store.Batch) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	if err := b.Valid(); err != nil {
		return err
	}
	now := c.s.now().Unix()
	if len(b.Uniques) > 0 {
		incs := make([]increment, 0, 2*len(b.Uniques))
		for i := range b.Uniques {
			pair := b.Uniques[i].PairCounter()
			incs = append(incs, c.increments(&pair, b.Uniques[i].Slot, 1, now)...)
		}
		fresh, err := c.countStep(ctx, b, stepPairs, incs)
		if err != nil {
			return err
		}
		if _, err := c.countStep(ctx, b, stepUniques, c.growing(b.Uniques, now, func(i int) bool { return fresh[i] })); err != nil {
			return err
		}
	}
	incs := make([]increment, 0, 2*len(b.Adds))
	for i := range b.Adds {
		if d := &b.Adds[i]; d.N > 0 {
			incs = append(incs, c.increments(&d.Counter, d.Slot, min(d.N, store.MaxCount), now)...)
		}
	}
	_, err := c.countStep(ctx, b, stepAdds, incs)
	return err
}

// countStep makes the increments of a step, and returns which of them found nothing; for pairs only.
func (c *Counters) countStep(ctx context.Context, b *store.Batch, step string, incs []increment) (fresh []bool, err error) {
	if len(incs) == 0 {
		return nil, nil
	}
	cl, err := c.s.conn()
	if err != nil {
		return nil, err
	}
	var byTag [tags][]int
	for i := range incs {
		byTag[incs[i].tag] = append(byTag[incs[i].tag], i)
	}
	var calls []call
	var members [][]int
	for tag, of := range byTag {
		if len(of) > 0 {
			calls = append(calls, c.stepCall(b, step, uint64(tag), incs, of))
			members = append(members, of)
		}
	}
	fresh = make([]bool, len(incs))
	for i := 0; i < len(calls); i += together {
		end := min(i+together, len(calls))
		if err := c.runSome(ctx, cl, calls[i:end], members[i:end], fresh); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// together is how many of a batch's scripts share a time limit: servers that keep counts on disk take a second for all.
const together = 32

// runSome runs scripts, and notes which of their increments found nothing.
func (c *Counters) runSome(ctx context.Context, cl rueidis.Client, calls []call, members [][]int, fresh []bool) error {
	c.s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.Timeout)
	defer cancel()
	for i, r := range runMany(ctx, cl, calls) {
		text, err := r.ToString()
		if err != nil {
			return c.s.failed(err)
		}
		for j := range text {
			fresh[members[i][j]] = text[j] == '1'
		}
	}
	return nil
}

// stepCall is the script's call for the increments of one tag.
func (c *Counters) stepCall(b *store.Batch, step string, tag uint64, incs []increment, of []int) call {
	numbers := string(strconv.AppendUint(c.s.appendHead(nil, tag, letterNum), b.Writer, 16))
	do := call{
		script: c.s.scripts.count,
		keys:   append(make([]string, 0, 1+len(of)), numbers),
		args:   append(make([]string, 0, 2+3*len(of)), strconv.FormatUint(b.Number, 10), step),
	}
	for _, i := range of {
		in := &incs[i]
		do.keys = append(do.keys, in.key)
		do.args = append(do.args, in.field, decimal(in.n), decimal(in.ttl))
	}
	return do
}

// runMany runs scripts at once, and again in full those that a server did not know.
func runMany(ctx context.Context, cl rueidis.Client, calls []call) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(calls))
	for i := range calls {
		cmds[i] = calls[i].short(cl)
	}
	results := cl.DoMulti(ctx, cmds...)
	var unknown []int
	cmds = cmds[:0]
	for i := range results {
		if unknownScript(results[i].Error()) {
			unknown = append(unknown, i)
			cmds = append(cmds, calls[i].full(cl))
		}
	}
	if len(unknown) == 0 {
		return results
	}
	for j, r := range cl.DoMulti(ctx, cmds...) {
		results[unknown[j]] = r
	}
	return results
}
