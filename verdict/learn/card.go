package learn

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"go.yaml.in/yaml/v3"
)

// ranks is how many quantiles a card has.
const ranks = 21

// Card is the result for a service: a score card as package formula reads it, whose score is high for a visitor who
// is unlike the known people. It never changes once it is in use.
type Card struct {
	Version  string        `yaml:"version"`
	Learnt   Learnt        `yaml:"learnt"`
	Bias     float32       `yaml:"bias"`
	Features []CardFeature `yaml:"factors"`

	index []int // of each feature, its place in Features
}

// Learnt says what a card was learnt from, and how well it tells the known people from all others.
type Learnt struct {
	Service  string    `yaml:"service,omitempty" json:"service"`
	At       time.Time `yaml:"at" json:"at"`
	Known    int       `yaml:"known" json:"known"`       // known people
	Networks int       `yaml:"networks" json:"networks"` // of theirs
	Others   int       `yaml:"others" json:"others"`     // visitors who are not known
	Trimmed  int       `yaml:"trimmed" json:"trimmed"`   // known people who were left out, as robots may be among them
	Ridge    float64   `yaml:"ridge" json:"ridge"`
	Area     float64   `yaml:"area" json:"area"` // under the ROC curve, cross-validated
	Low      float64   `yaml:"area_low" json:"area_low"`
	// Ranks are quantiles of the scores of the known people, the most usual one first.
	Ranks   []float32 `yaml:"ranks,flow" json:"-"`
	Typical []Typical `yaml:"typical" json:"-"` // medians of the known people
}

// Typical is the median of a feature among the known people; NaN if it is missing for all of them.
type Typical struct {
	Name  string  `yaml:"name"`
	Value float32 `yaml:"value"`
}

// CardFeature is the weights of one feature.
type CardFeature struct {
	Name string    `yaml:"name"`
	Bins []CardBin `yaml:"bins"`
}

// CardBin is from ≤ x < below; nil: without that bound.
type CardBin struct {
	From   *float32 `yaml:"from,omitempty"`
	Below  *float32 `yaml:"below,omitempty"`
	Weight float32  `yaml:"weight"`
}

// MarshalYAML writes a bin in one line.
func (b CardBin) MarshalYAML() (any, error) {
	type plain CardBin
	var n yaml.Node
	if err := n.Encode(plain(b)); err != nil {
		return nil, err
	}
	n.Style = yaml.FlowStyle
	return &n, nil
}

const cardHead = `# How usual a visitor is for this site, as learnt from its known people. Weights are log-odds; high is unusual.
# It sets trust and never bans: docs/detection.md.
`

// Text returns the card as a file that ReadCard and package formula read.
func (c *Card) Text() []byte {
	var b bytes.Buffer
	b.WriteString(cardHead)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(c), e.Close()); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Bytes()
}

// maxCard bounds the text of a card, in bytes.
const maxCard = 1 << 20

// ReadCard reads what Text has written.
func ReadCard(text []byte) (*Card, error) {
	if len(text) > maxCard {
		return nil, fmt.Errorf("the learnt card has %d bytes, more than %d", len(text), maxCard)
	}
	c := &Card{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("learnt card: %w", err)
	}
	if len(c.Learnt.Ranks) != ranks || !slices.IsSorted(c.Learnt.Ranks) {
		return nil, fmt.Errorf("learnt card: ranks are not %d ascending scores", ranks)
	}
	return c, c.compile()
}

// compile finds the features in a vector.
func (c *Card) compile() error {
	for i := range c.Features {
		at := slices.Index(Features, c.Features[i].Name)
		if at < 0 {
			return fmt.Errorf("learnt card: there is no feature %q", c.Features[i].Name)
		}
		c.index = append(c.index, at)
	}
	return nil
}

// Score returns how unusual a visitor is, in log-odds; x is in the order of Features.
func (c *Card) Score(x []float32) float32 {
	sum := c.Bias
	for i, at := range c.index {
		sum += c.Features[i].weight(x[at])
	}
	return sum
}

// Opinion reports whether enough is known of the service's people, and whether they differ from all others.
func (c *Card) Opinion() bool {
	return c.Learnt.Networks >= opinionPeople && c.Learnt.Low > opinionArea
}

// weight returns what a value adds to the score.
func (f *CardFeature) weight(x float32) float32 {
	for i := range f.Bins {
		b := &f.Bins[i]
		if (b.From == nil || x >= *b.From) && (b.Below == nil || x < *b.Below) {
			return b.Weight
		}
	}
	return 0 // missing
}

// Rank returns the share of the known people who are more usual than a score: 0 to 1.
func (c *Card) Rank(score float32) float64 {
	r := c.Learnt.Ranks
	n := sort.Search(len(r), func(i int) bool { return r[i] >= score })
	switch {
	case n == 0:
		return 0
	case n == len(r):
		return 1
	}
	part := float64(score-r[n-1]) / float64(r[n]-r[n-1])
	return (float64(n-1) + part) / float64(len(r)-1)
}

// Usual reports whether a score is within those of 95 % of the known people.
func (c *Card) Usual(score float32) bool { return c.Rank(score) <= usual }
