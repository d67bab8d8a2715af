package rules

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"

	"antirobot/request"
)

func requestRules() []*rule {
	return slices.Concat(checkRules(), counterRules(), formulaRules())
}

func checkRules() []*rule {
	return []*rule{
		{
			name:   "scoreOver",
			params: []param{{"limit", "100", kindNumber, "the limit"}},
			doc:    "FALSE if the score so far is over the limit.",
			build: func(a *arguments) (check, error) {
				limit := a.number("limit")
				return func(_ context.Context, _ *Env, r *Run) (bool, error) { return r.score <= limit, nil }, nil
			},
		},
		{
			name:   "nearDuplicateCheck",
			counts: true,
			params: []param{
				textParam(), storageParam(),
				windowParam("3600"),
				{"count", "3", kindWhole, "how many similar texts per window pass"},
				{"words", "3", kindWhole, "words per shingle, at least one"},
				{"minWords", "12", kindWhole, "only texts with at least this many words are checked"},
			},
			needs: PartStorages,
			doc: "FALSE if texts very similar to this one came more than count times in the window. Most of the " +
				"shingles (runs of words) of similar texts are the same.",
			build: buildNearDuplicate,
		},
		{
			name: "networkCheck",
			params: []param{
				{"networks", required, kindNetworks, "addresses and networks, separated by commas or spaces"},
				{"attribute", `"ip"`, kindAttribute, "the attribute with the address"},
			},
			doc:   "FALSE if the address is in one of the networks.",
			build: buildNetworkCheck,
		},
		{
			name: "listCheck",
			params: []param{
				{
					"list", required, kindList,
					"its name; api or inline: entries of the API or the configuration; block, ban or white: lists of that flag",
				},
				{"attribute", `"ip"`, kindAttribute, "the attribute to look up"},
				{
					"match", "None", kindText,
					"in a list of texts: value (default for keys), domain (hosts of links and mail addresses, and their " +
						"parents; default for domains) or word (default for words)",
				},
			},
			needs: PartLists,
			doc:   "FALSE if the value is in the list.",
			lint:  lintListCheck,
			build: buildListCheck,
		},
	}
}

func counterParams() (period, kind, prefix, subject param) {
	period = param{
		"period", `"1d"`, kindPeriod,
		`"10m" to "23h50m" by ten minutes, or "1d" to "14d", and the slot that has just begun`,
	}
	kind = param{"type", required, kindType, "the type number of the counter"}
	prefix = param{"prefix", `"rules"`, kindText, "the prefix of the counter"}
	subject = param{"attribute", `"subject"`, kindAttributes, "one attribute, or several that are counted together"}
	return period, kind, prefix, subject
}

func counterRules() []*rule {
	period, kind, prefix, subject := counterParams()
	return []*rule{
		{
			name:   "counterCheck",
			counts: true,
			params: []param{kind, {"limit", required, kindNumber, "the limit"}, period, subject, prefix},
			needs:  PartCounters,
			doc:    "FALSE if the counter of the value is over the limit.",
			build: func(a *arguments) (check, error) {
				limit := a.number("limit")
				return overCounter(a, CounterUse{Op: CountRead}, func(r *Run, n, _ uint64) bool {
					r.observe(float64(n))
					return float64(n) <= limit
				}), nil
			},
		},
		{
			name:   "counterShareCheck",
			counts: true,
			params: []param{
				kind,
				{"share", "0.99", kindNumber, "the share of bad events from which the rule is FALSE, 0 to 1"},
				{"minimum", "10", kindWhole, "at least so many events must have been judged"},
				period, subject, prefix,
			},
			needs: PartCounters,
			lint:  lintShare,
			doc:   "FALSE if at least this share of what counterMark counted for the value was bad or spam.",
			build: func(a *arguments) (check, error) {
				share, minimum := a.number("share"), uint64(a.whole("minimum"))
				return overCounter(a, CounterUse{Op: CountShare}, func(r *Run, bad, judged uint64) bool {
					if judged == 0 {
						return true
					}
					r.observe(float64(bad) / float64(judged))
					return judged < minimum || float64(bad) < share*float64(judged)
				}), nil
			},
		},
		{
			name:   "counterAdd",
			params: []param{kind, {"count", "1", kindWhole, "the number to add"}, subject, prefix},
			needs:  PartCounters,
			doc:    "Adds to the counter of the value. Always TRUE.",
			build: func(a *arguments) (check, error) {
				return overCounter(a, CounterUse{Op: CountAdd, N: uint64(a.whole("count"))}, always), nil
			},
		},
		{
			name: "counterAddPair",
			params: []param{
				kind,
				{"unique", required, kindAttribute, "the attribute whose counter grows"},
				subject, prefix,
			},
			needs: PartCounters,
			doc:   "Counts a pair of values: the unique counter grows once per period and pair. Always TRUE.",
			build: func(a *arguments) (check, error) {
				c, unique := a.counter(), a.text("unique")
				return overKey(a, func(ctx context.Context, e *Env, _ *Run, v Value) (bool, error) {
					u, err := e.valueOf(unique)
					if err != nil {
						return false, err
					}
					c := c
					c.Value = v
					_, _, err = e.Counters.Count(ctx, CounterUse{Op: CountPair, Counter: c, Unique: u})
					return true, err
				}), nil
			},
		},
		{
			name: "counterMark",
			params: []param{
				kind,
				{"as", `"bad"`, kindMarker, "the judgement of the value: " + markers},
				subject, prefix,
			},
			needs: PartCounters,
			doc:   "Counts that the value was judged, or marked by people, for counterShareCheck. Always TRUE.",
			build: func(a *arguments) (check, error) {
				as, _ := parseMarker(a.text("as"))
				return overCounter(a, CounterUse{Op: CountMark, As: as}, always), nil
			},
		},
	}
}

func always(*Run, uint64, uint64) bool { return true }

func overCounter(a *arguments, u CounterUse, judge func(r *Run, n, of uint64) bool) check {
	u.Counter = a.counter()
	return overKey(a, func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
		u := u
		u.Value = v
		n, of, err := e.Counters.Count(ctx, u)
		return judge(r, n, of), err
	})
}

func lintShare(a *arguments) string {
	if share := a.number("share"); share < 0 || share > 1 {
		return "a share is from 0 to 1"
	}
	return ""
}

func formulaRules() []*rule {
	return []*rule{
		{
			name: "formulaCheck",
			params: []param{
				{"formula", required, kindFormula, "the formula"},
				{"limit", "0.5", kindNumber, "the limit; formulas have values from 0 to 1"},
			},
			needs: PartFormulas,
			doc: "FALSE if the formula's value is over the limit. It is a model of factors of the run so far: score; " +
				"tag_NAME, 1 or 0; count_NAME, the number that a counting rule with this tag found, unknown if it did not run.",
			build: buildFormulaCheck,
		},
	}
}

func (a *arguments) counter() Counter {
	c := Counter{Prefix: a.text("prefix"), Type: uint16(a.whole("type"))}
	for _, d := range a.rule.params {
		if d.name == "period" {
			c.Period = a.period("period")
		}
	}
	return c
}

func buildNetworkCheck(a *arguments) (check, error) {
	var networks []netip.Prefix
	for _, f := range networkFields(a.text("networks")) {
		p, err := request.ParseNetwork(f)
		if err != nil {
			return nil, &SyntaxError{Pos: a.at, Text: err.Error()}
		}
		networks = append(networks, p)
	}
	attribute := a.text("attribute")
	return func(_ context.Context, e *Env, _ *Run) (bool, error) {
		v, err := e.valueOf(attribute)
		if err != nil {
			return false, err
		}
		if v.Kind != IP {
			return false, Faultf(CodeType, "the attribute %s is of type %s, not IP", attribute, v.Kind)
		}
		addr := v.IP.Unmap()
		for _, p := range networks {
			if p.Contains(addr) {
				return false, nil
			}
		}
		return true, nil
	}, nil
}

func buildNearDuplicate(a *arguments) (check, error) {
	f := newFrequencyLimit('n', a)
	words, least := max(1, a.whole("words")), a.whole("minWords")
	return overText(a, func(ctx context.Context, e *Env, r *Run, text string) (bool, error) {
		pairs, ok := r.sketch(text, words, least)
		if !ok {
			return true, nil
		}
		over, most := 0, int64(0)
		for i, pair := range pairs {
			r.buf = append(append(r.buf[:0], f.key...), byte(i))
			r.buf = binary.BigEndian.AppendUint64(r.buf, pair)
			n, err := e.Storages.Frequency(ctx, f.storage, r.buf, 1, f.window)
			if err != nil {
				return false, err
			}
			if n > f.count {
				over++
			}
			most = max(most, n)
		}
		r.observe(float64(most))
		return over < nearPairs, nil
	}), nil
}
