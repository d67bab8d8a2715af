// Package formula turns the factors of a subject into the probability that it is a robot.
//
// A model is read from one of three kinds of files, distinguished by their content: trees that XGBoost saved as JSON
// (Booster.save_model with a name that ends in .json), oblivious trees that CatBoost exported as JSON, and a score card
// in YAML, for people to write and read (see card.go). A model computes log-odds, the raw score; Score maps it to
// [0,1].
//
// Invariants:
//  1. A Model never changes after Load: it is safe for concurrent use, and Score, Raw and Explain (into a slice that is
//     long enough) allocate nothing.
//  2. A model whose factors are not all known does not load. Factors are matched by name where the file has names, by
//     position only where it has none.
//  3. Anything in a file that is not fully understood (categories, several classes, another objective, a version from
//     the future) is an error, never a guess: a wrong score is worse than none.
//  4. NaN means that a factor is not known. It goes where training sent it; in a score card, where its author did.
//  5. A file costs memory in proportion to its size, which is bounded, whatever it claims about itself.
package formula

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"antirobot/verdict/words"
)

// Bounds on what is loaded. A model of 1,000 trees of depth 8 is within them.
const (
	MaxFile    = 64 << 20 // size of a file of trees
	maxCard    = 1 << 20  // size of a score card
	MaxFactors = 4096     // names, and features of a model
	maxTrees   = 10_000
	maxNodes   = 4 << 20 // of all trees together; leaves of oblivious ones count too
	maxDepth   = 64      // of one tree; of an oblivious one 16
)

// Kind is the sort of file that a model came from.
type Kind string

// The kinds of models.
const (
	XGBoost  Kind = "xgboost"
	CatBoost Kind = "catboost"
	Card     Kind = "card"
)

// Model is a loaded formula. Make one with Load.
type Model struct {
	kind    Kind
	version string
	names   []string // of all factors in x
	uses    []int    // positions in names
	link    link
	bias    float64 // for explanations: the raw score before any factor contributes
	weight  []float32
	reasons []string // by factor, if a score card gives one; otherwise empty

	trees     *trees
	oblivious *oblivious
	card      *card
}

// link maps the raw score to [0,1].
type link uint8

const (
	logistic link = iota // 1/(1+e^-raw)
	clamp                // the raw score is already a share; what is outside [0,1] is clamped
)

// Load reads a model whose factors are among names; Score later expects their values in that order. data is not kept.
// The error names everything that does not fit.
func Load(data []byte, names []string) (*Model, error) {
	if err := checkNames(names); err != nil {
		return nil, err
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file has %d bytes, more than the %d that a model may have", len(data), MaxFile)
	}
	kind, err := recognise(data)
	if err != nil {
		return nil, err
	}
	m := &Model{kind: kind, names: slices.Clone(names), weight: make([]float32, len(names))}
	sum := sha256.Sum256(data)
	m.version = string(kind) + "-" + hex.EncodeToString(sum[:4])
	switch kind {
	case XGBoost:
		err = m.loadXGBoost(data)
	case CatBoost:
		err = m.loadCatBoost(data)
	default:
		err = m.loadCard(data, hex.EncodeToString(sum[:4]))
	}
	if err != nil {
		return nil, fmt.Errorf("%s model: %w", kind, err)
	}
	return m, nil
}

func checkNames(names []string) error {
	if len(names) == 0 || len(names) > MaxFactors {
		return fmt.Errorf("%d factors: not between 1 and %d", len(names), MaxFactors)
	}
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if n == "" || seen[n] {
			return fmt.Errorf("the name of factor %q is empty or occurs twice", n)
		}
		seen[n] = true
	}
	return nil
}

// seen records that a key of an object is present, whatever its value.
type seen bool

// UnmarshalJSON implements json.Unmarshaler.
func (s *seen) UnmarshalJSON([]byte) error {
	*s = true
	return nil
}

// recognise distinguishes the kinds, and for other files that people are likely to try says what to do instead.
func recognise(data []byte) (Kind, error) {
	text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n")
	has := func(prefix string) bool { return bytes.HasPrefix(text, []byte(prefix)) }
	switch {
	case len(text) == 0:
		return "", errors.New("the file is empty")
	case has("["):
		return "", errors.New("a list at the top is what XGBoost's dump_model writes, which lacks the base score; use save_model(\"model.json\")")
	case has("{L"), has("{i"), has("{U"), has("binf"), has("bs64"):
		return "", errors.New("this is XGBoost's binary format; use save_model with a name that ends in .json")
	case has("CBM1"):
		return "", errors.New("this is CatBoost's binary format; use save_model(\"model.json\", format=\"json\")")
	case has("tree\n"), has("tree\r\n"):
		return "", errors.New("this is a model of LightGBM, which is not read; train with XGBoost or CatBoost")
	case has("\x80"), has("PK\x03\x04"), has("\x1f\x8b"):
		return "", errors.New("this is a pickle or an archive, not a model in JSON or a score card in YAML")
	case !has("{"):
		return Card, nil
	}
	var top struct {
		Learner   seen `json:"learner"`
		Oblivious seen `json:"oblivious_trees"`
		Trees     seen `json:"trees"`
		Features  seen `json:"features_info"`
		Factors   seen `json:"factors"`
	}
	err := json.Unmarshal(data, &top)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && len(data) <= maxCard:
		return Card, nil // YAML may begin like this too, and its reader reports the line
	case err != nil:
		return "", fmt.Errorf("not a JSON model: %w", err)
	case bool(top.Learner):
		return XGBoost, nil
	case bool(top.Oblivious):
		return CatBoost, nil
	case bool(top.Trees) && bool(top.Features):
		return "", errors.New("CatBoost's trees are not oblivious; train with grow_policy=\"SymmetricTree\", its default")
	case bool(top.Factors):
		return Card, nil
	}
	return "", errors.New("neither XGBoost's JSON (it has learner), nor CatBoost's (it has oblivious_trees), nor a score card (it has factors)")
}

// Score returns the probability, in [0,1], that the subject with the factors x is a robot. x has a value for each of
// the names given to Load, in their order.
func (m *Model) Score(x []float32) float32 { return m.link.of(m.Raw(x)) }

// Raw returns the score before it is mapped to [0,1]: log-odds, unless the model was trained as a regression.
func (m *Model) Raw(x []float32) float32 {
	x = x[:len(m.names)]
	switch {
	case m.trees != nil:
		return m.trees.raw(x)
	case m.oblivious != nil:
		return m.oblivious.raw(x)
	default:
		return m.card.raw(x)
	}
}

// Share maps a raw score, or a sum of raw scores, to [0,1].
func (m *Model) Share(raw float32) float32 { return m.link.of(raw) }

// of maps a raw score. The logistic function is cut off where XGBoost cuts it off, so that e^-raw stays a float32.
func (l link) of(raw float32) float32 {
	if l == clamp {
		return min(max(raw, 0), 1)
	}
	return float32(1 / (1 + math.Exp(float64(min(-raw, 88.7)))))
}

// Explain returns, appended to dst[:0], what each factor contributed to the raw score of x, in log-odds and in the
// order of the names. Together with Bias they add up to Raw, up to rounding.
//
// For trees it is the attribution along the path (Saabas 2014, XGBoost's approx_contribs): each split on the way to the
// leaf changes the mean of what training saw below it, and the change is credited to the split's factor. For a score
// card it is the weights that applied; those of a rule over several factors are shared equally.
func (m *Model) Explain(dst, x []float32) []float32 {
	dst = slices.Grow(dst[:0], len(m.names))[:len(m.names)]
	clear(dst)
	x = x[:len(m.names)]
	switch {
	case m.trees != nil:
		m.trees.explain(dst, x)
	case m.oblivious != nil:
		m.oblivious.explain(dst, x)
	default:
		m.card.explain(dst, x)
	}
	return dst
}

// Bias returns the raw score before any factor contributes: the starting point of Explain.
func (m *Model) Bias() float32 { return float32(m.bias) }

// Version returns what distinguishes this model from others: its kind, or the version that a score card gives itself,
// and the first eight digits of the file's SHA-256.
func (m *Model) Version() string { return m.version }

// Kind returns the sort of file that the model came from.
func (m *Model) Kind() Kind { return m.kind }

// Names returns the names given to Load. It is the model's own slice: don't change it.
func (m *Model) Names() []string { return m.names }

// Needs returns the names of the factors that can change the score, in the order of Names.
func (m *Model) Needs() []string {
	var out []string
	for _, i := range m.uses {
		out = append(out, m.names[i])
	}
	return out
}

// Importance returns for each factor, in the order of Names, how far it moves the raw score, in log-odds. For trees it
// is the mean of the absolute changes that its splits made to what training saw; for a score card, the distance between
// its lowest and its highest weight. It is the model's own slice: don't change it.
func (m *Model) Importance() []float32 { return m.weight }

// Size describes the model for people: "100 trees, 12700 nodes".
func (m *Model) Size() string {
	switch {
	case m.trees != nil:
		return words.Sprintf(words.English, "%d {tree|trees}, %d {node|nodes}", len(m.trees.roots), len(m.trees.nodes))
	case m.oblivious != nil:
		return words.Sprintf(words.English, "%d oblivious {tree|trees}, %d {leaf|leaves}", len(m.oblivious.trees), len(m.oblivious.leaves))
	default:
		return words.Sprintf(words.English, "%d {factor|factors}, %d {rule|rules}", len(m.card.factors), len(m.card.rules))
	}
}

// Reason returns what a score card says about a factor, for explanations; "" if it says nothing, and for trees.
func (m *Model) Reason(factor int) string {
	if factor < len(m.reasons) {
		return m.reasons[factor]
	}
	return ""
}

// used records the positions of the factors that can change the score.
func (m *Model) used(set map[int]bool) {
	for i := range m.names {
		if set[i] {
			m.uses = append(m.uses, i)
		}
	}
}

func abs(v float32) float32 { return max(v, -v) }
