package rules

import (
	"context"
	"strings"
	"time"
)

func generalRules() []*rule {
	return append(eventRules(), worldRules()...)
}

func eventRules() []*rule {
	event := param{"event", required, kindText, "the name of the event"}
	window := windowParam("60")
	whose := param{"attribute", `"subject"`, kindAttributes, "one attribute, or several that are counted together"}
	return []*rule{
		{
			name: "eventAdd",
			params: []param{
				event, whose, window,
				{"number", "1", kindWhole, "the number of events to add"},
				storageParam(),
			},
			needs: PartStorages,
			doc:   "Counts an event of the value, for an eventCheck of the same window. Always TRUE.",
			lint:  lintWindow,
			build: func(a *arguments) (check, error) {
				f, n := newEvents(a), a.whole("number")
				return overKey(a, func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
					_, err := f.count(ctx, e, r, v, n)
					return true, err
				}), nil
			},
		},
		{
			name:   "eventCheck",
			counts: true,
			params: []param{
				event, whose, window,
				{"count", "3", kindWhole, "how many events per window pass"},
				storageParam(),
			},
			needs: PartStorages,
			doc:   "FALSE if more than count events of the value were counted in the window.",
			lint:  lintWindow,
			build: func(a *arguments) (check, error) {
				f, most := newEvents(a), a.whole("count")
				return overKey(a, func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
					n, err := f.count(ctx, e, r, v, 0)
					r.observe(float64(n))
					return n <= most, err
				}), nil
			},
		},
		{
			name: "bucketCheck",
			params: []param{
				{"rate", required, kindNumber, "how many tokens come in a time of per"},
				{"per", "1", kindSeconds, "the time for rate tokens"},
				{"burst", "1", kindWhole, "how many tokens the bucket holds, at least one; it is full at first"},
				whose, storageParam(),
			},
			needs: PartStorages,
			doc: "Takes a token from the bucket of the value; FALSE if it is empty. The answer throttle names the " +
				"time of the next token.",
			build: buildBucketCheck,
		},
	}
}

func lintWindow(a *arguments) string {
	if a.seconds("timeout") < time.Second {
		return "a window is at least a second long; timeout=0 is for ever"
	}
	return ""
}

type events struct {
	storage string
	key     []byte
	window  time.Duration
}

func newEvents(a *arguments) *events {
	key := append([]byte{'e'}, a.text("event")...)
	key = append(append(append(key, 0), a.text("attribute")...), 0)
	key = append(append(key, a.seconds("timeout").String()...), 0)
	return &events{a.text("storage"), key, a.seconds("timeout")}
}

func (f *events) count(ctx context.Context, e *Env, r *Run, v Value, n int64) (int64, error) {
	r.buf = appendValue(append(r.buf[:0], f.key...), v)
	return e.Storages.Frequency(ctx, f.storage, r.buf, n, f.window)
}

const maxBurst = 1_000_000

func buildBucketCheck(a *arguments) (check, error) {
	rate, per, burst := a.number("rate"), a.seconds("per"), a.whole("burst")
	if rate <= 0 || per <= 0 || burst < 1 || burst > maxBurst {
		return nil, &SyntaxError{
			Pos:  a.at,
			Text: "bucketCheck needs a rate and a time above zero, and a burst of 1 to 1000000",
		}
	}
	b := Bucket{Every: time.Duration(float64(per) / rate), Burst: burst}
	if b.Every < time.Microsecond || b.Every > 24*time.Hour {
		return nil, &SyntaxError{Pos: a.at, Text: "bucketCheck: a token comes every " + b.Every.String() +
			", which is not between a microsecond and a day"}
	}
	storage := a.text("storage")
	key := append(append([]byte{'b'}, a.text("attribute")...), 0)
	key = append(append(key, b.Every.String()...), 0)
	return overKey(a, func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
		r.buf = appendValue(append(r.buf[:0], key...), v)
		wait, err := e.Storages.Draw(ctx, storage, r.buf, b)
		r.wait = max(r.wait, wait)
		return wait == 0, err
	}), nil
}

func worldRules() []*rule {
	return []*rule{
		{
			name: "compareCheck",
			params: []param{
				{"attribute", required, kindAttribute, "the attribute"},
				{"other", required, kindAttribute, "the attribute that it is compared with"},
				{
					"is", `"equal"`, kindText,
					"equal (by type), same (texts, without case), contains, starts, ends (texts), host (texts: an " +
						"address at the other's host), less or more (whole numbers)",
				},
			},
			doc:   "TRUE if the first attribute is to the second what `is` says.",
			build: buildCompareCheck,
		},
		{
			name: "rangeCheck",
			params: []param{
				{"attribute", required, kindAttribute, "the attribute: a whole number, or a text that is a number"},
				{"min", "None", kindNumber, "the least number"},
				{"max", "None", kindNumber, "the greatest number"},
			},
			doc:   "TRUE if the number is within the limits, both inclusive. A text that is not a number is FALSE.",
			lint:  lintRangeCheck,
			build: buildRangeCheck,
		},
		{
			name: "timeCheck",
			params: []param{
				{"from", `"00:00"`, kindText, "the time of day at which it begins"},
				{"to", `"24:00"`, kindText, "the time of day at which it ends; before from: on the next day"},
				{
					"days", `"mon-sun"`, kindText,
					"the days on which it begins, such as mon-fri, sun",
				},
				{"zone", `"UTC"`, kindText, "the time zone, such as Europe/Moscow"},
			},
			doc:   "TRUE from one time of the day to the other.",
			lint:  lintTimeCheck,
			build: buildTimeCheck,
		},
		{
			name: "sampleCheck",
			params: []param{
				{"share", required, kindNumber, "the share that is taken, 0 to 1"},
				{
					"attribute", "None", kindAttributes,
					"whose values are always taken or never; none: by chance",
				},
				{"salt", `""`, kindText, "samples of different salts are independent"},
			},
			doc:   "FALSE for the given share: to try a rule on a part of what comes.",
			lint:  lintShare,
			build: buildSampleCheck,
		},
	}
}

func attributeNames(s string) []string {
	names := strings.Split(s, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
