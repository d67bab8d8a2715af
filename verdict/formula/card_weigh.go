package formula

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Weight is one weight of a score card that can be changed by itself.
type Weight struct {
	Factor string  `json:"factor,omitempty"` // empty: of a rule, or the bias
	Rule   string  `json:"rule,omitempty"`
	Why    string  `json:"why,omitempty"`  // what the card says of it
	When   string  `json:"when,omitempty"` // where it applies: "30 ≤ x < 60"
	Value  float64 `json:"value"`

	node *yaml.Node
}

// Weights returns the bias of a score card and its weights, in the order of the file; nil for another kind of model.
func Weights(data []byte) []Weight {
	if kind, err := recognise(data); err != nil || kind != Card {
		return nil
	}
	_, all := cardWeights(data)
	return all
}

// Reweigh returns a score card with other weights, given by their places in what Weights returns. Comments stay.
func Reweigh(data []byte, to map[int]float64) ([]byte, error) {
	doc, all := cardWeights(data)
	if doc == nil {
		return nil, errors.New("only a score card has weights that can be changed one by one")
	}
	for i, v := range to {
		if i < 0 || i >= len(all) {
			return nil, fmt.Errorf("the card has no weight number %d", i)
		}
		if math.IsNaN(v) || math.Abs(v) > maxCardWeight {
			return nil, fmt.Errorf("weight %d: %v is not between -%d and %d", i, v, maxCardWeight, maxCardWeight)
		}
		n := all[i].node
		n.Value, n.Tag, n.Style = strconv.FormatFloat(v, 'g', -1, 64), "", 0
	}
	return yaml.Marshal(doc)
}

// cardWeights finds the weights in the document of a card; what is not as a card should be is left out.
func cardWeights(data []byte) (doc *yaml.Node, all []Weight) {
	doc = new(yaml.Node)
	if len(data) > maxCard || yaml.Unmarshal(data, doc) != nil || doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	add := func(w Weight, n *yaml.Node) {
		v, err := strconv.ParseFloat(textOf(n), 64)
		if err == nil {
			w.Value, w.node = v, n
			all = append(all, w)
		}
	}
	root := doc.Content[0]
	add(Weight{Why: "bias"}, valueOf(root, "bias"))
	for _, f := range itemsOf(valueOf(root, "factors")) {
		w := Weight{Factor: textOf(valueOf(f, "name")), Why: textOf(valueOf(f, "why"))}
		for _, b := range itemsOf(valueOf(f, "bins")) {
			w.When = spanText(b)
			add(w, valueOf(b, "weight"))
		}
	}
	for _, r := range itemsOf(valueOf(root, "rules")) {
		add(Weight{Rule: textOf(valueOf(r, "name"))}, valueOf(r, "weight"))
	}
	return doc, all
}

// spanText says where a bin applies.
func spanText(b *yaml.Node) string {
	from, below, is := textOf(valueOf(b, "from")), textOf(valueOf(b, "below")), textOf(valueOf(b, "is"))
	var text strings.Builder
	if from != "" {
		text.WriteString(from + " ≤ ")
	}
	text.WriteString("x")
	if below != "" {
		text.WriteString(" < " + below)
	}
	if is != "" {
		return "x = " + is
	}
	return text.String()
}

// valueOf returns the value of a key of a mapping; nil if there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func itemsOf(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

func textOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
