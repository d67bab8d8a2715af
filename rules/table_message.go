package rules

import (
	"context"
	"crypto/md5"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// messageRules have the names and defaults that existing rule texts rely on.
func messageRules() []*rule {
	return []*rule{
		{name: "ruleTrue", doc: "Always TRUE.", build: constant(true)},
		{name: "ruleFalse", doc: "Always FALSE.", build: constant(false)},
		{
			name: "regexpCheck",
			params: []param{
				{"regexp", required, kindRegexp, "the expression"},
				textParam(),
			},
			doc: "TRUE if the regexp matches at the start of the text, with case and in linear time: look-around and " +
				"back-references are rejected.",
			build: buildRegexpCheck,
		},
		{
			name: "lengthCheck",
			params: []param{
				{"minLength", "None", kindWhole, "least number of code points"},
				{"maxLength", "None", kindWhole, "greatest number of code points"},
				textParam(),
			},
			doc:   "TRUE if the length is within the limits. Without limits the attribute is not read.",
			lint:  lintLengthCheck,
			build: buildLengthCheck,
		},
		{
			name: "attributeCheck",
			params: []param{
				{"attribute", required, kindAttribute, "the attribute"},
				{"value", required, kindValue, "the value to compare with; a number never equals a text"},
			},
			doc:   "TRUE if the attribute equals the value, by type.",
			build: buildAttributeCheck,
		},
		{
			name:   "hasAttribute",
			params: []param{{"attribute", required, kindAttribute, "the attribute"}},
			doc:    "TRUE if the attribute is present. Never an error.",
			build: func(a *arguments) (check, error) {
				name := a.text("attribute")
				return func(_ context.Context, e *Env, _ *Run) (bool, error) {
					_, ok, err := e.attribute(name)
					return ok, err
				}, nil
			},
		},
		{
			name: "messageFloodCheck",
			params: []param{
				textParam(),
				{"minLength", "16", kindWhole, "shorter texts pass"},
				{"minMean", "1.5", kindNumber, "flood has a higher mean"},
				{"maxVariance", "2.0", kindNumber, "flood has a lower variance"},
			},
			doc: "FALSE if a few trigrams fill the text evenly: the mean of the counts of distinct trigrams in the " +
				"lower-cased skeleton without white space is above minMean, their sample variance below maxVariance.",
			slow:  true,
			build: buildFloodCheck,
		},
		{
			name:   "messageFrequencyCheck",
			counts: true,
			params: []param{
				textParam(),
				storageParam(),
				windowParam("300"),
				{"count", "3", kindWhole, "how many messages per window pass"},
				{"minLength", "10", kindWhole, "only longer texts are checked"},
			},
			needs: PartStorages,
			doc: "FALSE if the same text came more than count times in the window. White space, case and disguise " +
				"are ignored.",
			build: buildMessageFrequency,
		},
		{
			name:   "userFrequencyCheck",
			counts: true,
			params: []param{
				{"attribute", `"from"`, kindAttributes, "one attribute, or several that are counted together"},
				storageParam(),
				windowParam("300"),
				{"count", "3", kindWhole, "how many messages per window pass"},
			},
			needs: PartStorages,
			doc:   "FALSE if the same value came more than count times in the window.",
			build: buildUserFrequency,
		},
	}
}

func modelRules() []*rule {
	return []*rule{
		{
			name:   "modelClassify",
			counts: true,
			params: []param{
				{"model", `"model"`, kindModel, "the model"},
				textParam(),
				{"limit", "0.5", kindNumber, "the score, 0 to 1, above which a text is bad"},
			},
			needs: PartModels,
			doc:   "TRUE if the model considers the text good; a text of unknown words is good.",
			build: func(a *arguments) (check, error) {
				model, limit := a.text("model"), a.number("limit")
				return overText(a, func(ctx context.Context, e *Env, r *Run, text string) (bool, error) {
					score, err := e.Models.Score(ctx, model, text)
					r.observe(score)
					return score <= limit, err
				}), nil
			},
		},
		{
			name: "modelTrain",
			params: []param{
				{"model", `"model"`, kindModel, "the model"},
				textParam(),
				{"marker", `"good"`, kindText, `"good", or "bad", or "spam", which is the same`},
			},
			needs: PartModels,
			doc:   "Trains the model with the text. Always TRUE.",
			build: func(a *arguments) (check, error) {
				model := a.text("model")
				good, err := TrainsGood(a.text("marker"))
				if err != nil {
					return nil, &SyntaxError{Pos: a.at, Text: "modelTrain: " + err.Error()}
				}
				return overText(a, func(ctx context.Context, e *Env, _ *Run, text string) (bool, error) {
					return true, e.Models.Train(ctx, model, text, good)
				}), nil
			},
		},
		{
			name: "messageLogPut",
			params: []param{
				{"log", `"messageLog"`, kindLog, "the message log"},
				{"tag", "None", kindText, "a tag for the entry alone, before the others"},
			},
			needs: PartLogs,
			doc:   "Writes the message with its tags into the log. Always TRUE.",
			build: func(a *arguments) (check, error) {
				log, tag := a.text("log"), a.text("tag")
				return func(ctx context.Context, e *Env, r *Run) (bool, error) {
					return true, e.Logs.Put(ctx, log, tag, r)
				}, nil
			},
		},
	}
}

func buildRegexpCheck(a *arguments) (check, error) {
	m := a.matcher("regexp")
	return overText(a, func(_ context.Context, _ *Env, _ *Run, text string) (bool, error) {
		return m.match(text), nil
	}), nil
}

func buildLengthCheck(a *arguments) (check, error) {
	least, most := a.whole("minLength"), a.whole("maxLength")
	hasLeast, hasMost := a.given("minLength"), a.given("maxLength")
	if !hasLeast && !hasMost {
		return func(context.Context, *Env, *Run) (bool, error) { return true, nil }, nil
	}
	return overText(a, func(_ context.Context, _ *Env, _ *Run, text string) (bool, error) {
		n := int64(utf8.RuneCountInString(text))
		return (!hasLeast || n >= least) && (!hasMost || n <= most), nil
	}), nil
}

func lintLengthCheck(a *arguments) string {
	if a.given("minLength") && a.given("maxLength") && a.whole("minLength") > a.whole("maxLength") {
		return "minLength is above maxLength: no text is that long"
	}
	return ""
}

func buildAttributeCheck(a *arguments) (check, error) {
	want := a.literals["value"]
	addr, err := netip.ParseAddr(want.Text)
	isAddr := want.IsText && err == nil
	addr = addr.Unmap()
	return overValue(a, func(_ context.Context, _ *Env, _ *Run, v Value) (bool, error) {
		switch v.Kind {
		case Text:
			return want.IsText && v.Text == want.Text, nil
		case Int, UniqueInt:
			return want.Whole && v.Int == want.Int, nil
		case IP:
			return isAddr && v.IP.Unmap() == addr, nil
		}
		return false, nil
	}), nil
}

func buildFloodCheck(a *arguments) (check, error) {
	l := floodLimits{a.whole("minLength"), a.number("minMean"), a.number("maxVariance")}
	return overText(a, func(_ context.Context, _ *Env, r *Run, text string) (bool, error) {
		return !r.flood(text, l), nil
	}), nil
}

// frequencyKey separates rules that differ in kind, attribute, window or count: two limits are two counts.
func frequencyKey(kind byte, a *arguments) []byte {
	key := append([]byte{kind}, a.text("attribute")...)
	key = append(key, 0)
	key = strconv.AppendInt(key, int64(a.seconds("timeout")), 36)
	key = append(key, '/')
	key = strconv.AppendInt(key, a.whole("count"), 36)
	return append(key, 0)
}

type frequencyLimit struct {
	storage string
	key     []byte
	window  time.Duration
	count   int64
}

func newFrequencyLimit(kind byte, a *arguments) *frequencyLimit {
	return &frequencyLimit{a.text("storage"), frequencyKey(kind, a), a.seconds("timeout"), a.whole("count")}
}

func (f *frequencyLimit) pass(ctx context.Context, e *Env, r *Run) (bool, error) {
	sum := md5.Sum(r.buf) //nolint:gosec // see the import
	r.buf = append(append(r.buf[:0], f.key...), sum[:]...)
	n, err := e.Storages.Frequency(ctx, f.storage, r.buf, 1, f.window)
	r.observe(float64(n))
	return n <= f.count, err
}

func buildMessageFrequency(a *arguments) (check, error) {
	f, least := newFrequencyLimit('m', a), a.whole("minLength")
	return overText(a, func(ctx context.Context, e *Env, r *Run, text string) (bool, error) {
		if int64(utf8.RuneCountInString(text)) <= least {
			return true, nil
		}
		text, _ = r.reader.Read(text)
		r.buf = appendSqueezed(r.buf[:0], text)
		return f.pass(ctx, e, r)
	}), nil
}

func buildUserFrequency(a *arguments) (check, error) {
	f := newFrequencyLimit('u', a)
	return overKey(a, func(ctx context.Context, e *Env, r *Run, v Value) (bool, error) {
		r.buf = appendValue(r.buf[:0], v)
		return f.pass(ctx, e, r)
	}), nil
}

// TrainsGood reads a marker. Other words are refused: they would train bad unnoticed.
func TrainsGood(marker string) (good bool, err error) {
	switch marker {
	case "good":
		return true, nil
	case "bad", "spam":
		return false, nil
	}
	return false, Faultf(CodeType, `the marker %q is neither "good" nor "bad"`, Clip(marker, 32))
}
