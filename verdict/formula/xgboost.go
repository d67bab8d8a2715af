package formula

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// xgbModel is the part that we read of https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html (versions 1
// to 3). Numbers among the model's parameters are strings.
type xgbModel struct {
	Version []int      `json:"version"`
	Learner xgbLearner `json:"learner"`
}

type xgbLearner struct {
	Names xgbStrings `json:"feature_names"`
	Param struct {
		BaseScore  string `json:"base_score"`
		NumClass   string `json:"num_class"`
		NumFeature string `json:"num_feature"`
		NumTarget  string `json:"num_target"`
	} `json:"learner_model_param"`
	Objective struct {
		Name string `json:"name"`
	} `json:"objective"`
	Booster xgbBooster `json:"gradient_booster"`
}

// xgbBooster is that of gbtree; dart contains one, plus weights.
type xgbBooster struct {
	Name  string `json:"name"`
	Model struct {
		Trees xgbTrees `json:"trees"`
		Info  []int    `json:"tree_info"`
		Param struct {
			SizeLeaf string `json:"size_leaf_vector"`
		} `json:"gbtree_model_param"`
	} `json:"model"`
	GBTree *xgbBooster `json:"gbtree"`
	Drop   []float32   `json:"weight_drop"`
}

type xgbTree struct {
	Left      []int32   `json:"left_children"`
	Right     []int32   `json:"right_children"`
	Indices   []int32   `json:"split_indices"`
	Threshold []float32 `json:"split_conditions"`
	Default   []flag    `json:"default_left"`
	Types     []int32   `json:"split_type"`
	Hessian   []float32 `json:"sum_hessian"`
	Param     struct {
		SizeLeaf string `json:"size_leaf_vector"`
	} `json:"tree_param"`
}

// flag is a boolean, which XGBoost writes as a boolean or, since 1.6, as a number.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "1", "true":
		*f = true
	case "0", "false":
		*f = false
	default:
		return fmt.Errorf("default_left: %.60s is neither 0 nor 1", b)
	}
	return nil
}

// xgbStrings and xgbTrees count what they read, so that a short file can't demand much memory.
type xgbStrings []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *xgbStrings) UnmarshalJSON(b []byte) error {
	return eachOf(b, "feature_names", MaxFactors, func(d *json.Decoder) error {
		var s string
		err := d.Decode(&s)
		*l = append(*l, s)
		return err
	})
}

type xgbTrees []*xgbTree

// UnmarshalJSON implements json.Unmarshaler.
func (l *xgbTrees) UnmarshalJSON(b []byte) error {
	nodes := 0
	return eachOf(b, "trees", maxTrees, func(d *json.Decoder) error {
		t := &xgbTree{}
		if err := d.Decode(t); err != nil {
			return fmt.Errorf("trees[%d]: %w", len(*l), err)
		}
		if nodes += len(t.Left); nodes > maxNodes {
			return fmt.Errorf("trees: more than %d nodes", maxNodes)
		}
		if err := t.check(); err != nil {
			return fmt.Errorf("trees[%d]: %w", len(*l), err)
		}
		*l = append(*l, t)
		return nil
	})
}

// eachOf calls f for every element of the list b, with a decoder positioned before it.
func eachOf(b []byte, what string, most int, f func(*json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	open, err := d.Token()
	switch {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return fmt.Errorf("%s: not a list", what)
	}
	for n := 0; d.More(); n++ {
		if n == most {
			return fmt.Errorf("%s: more than %d", what, most)
		}
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

// check compares the lengths of the lists by node.
func (t *xgbTree) check() error {
	n := len(t.Left)
	if n == 0 {
		return errors.New("no nodes")
	}
	for _, l := range []struct {
		name string
		len  int
	}{
		{"right_children", len(t.Right)},
		{"split_indices", len(t.Indices)},
		{"split_conditions", len(t.Threshold)},
		{"default_left", len(t.Default)},
	} {
		if l.len != n {
			return fmt.Errorf("%s has %d entries, left_children %d", l.name, l.len, n)
		}
	}
	if len(t.Types) != n && len(t.Types) != 0 { // versions before 1.3 have none
		return fmt.Errorf("split_type has %d entries, left_children %d", len(t.Types), n)
	}
	for i, s := range t.Types {
		if s != 0 {
			return fmt.Errorf("node %d splits by categories; train with numbers only", i)
		}
	}
	if len(t.Hessian) != n {
		t.Hessian = make([]float32, n)
	}
	if t.Param.SizeLeaf != "" && t.Param.SizeLeaf != "0" && t.Param.SizeLeaf != "1" {
		return errors.New("the leaves are vectors; train one model for one label")
	}
	return nil
}

func (m *Model) loadXGBoost(data []byte) error {
	var f xgbModel
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	l := &f.Learner
	if err := f.checkHead(); err != nil {
		return err
	}
	count, err := strconv.Atoi(l.Param.NumFeature)
	if err != nil || count < 1 || count > MaxFactors {
		return fmt.Errorf("learner_model_param.num_feature: %.60q is not between 1 and %d", l.Param.NumFeature, MaxFactors)
	}
	booster, err := l.Booster.trees()
	if err != nil {
		return err
	}
	factorOf, err := matchNames(l.Names, count, m.names)
	if err != nil {
		return err
	}
	base, err := l.margin()
	if err != nil {
		return err
	}
	m.link, _ = xgbLink(l.Objective.Name)
	t := &trees{base: base, moves: make([]float32, len(m.names))}
	lacks := unknown{names: m.names}
	for i, tree := range booster.Model.Trees {
		s := &source{
			left: tree.Left, right: tree.Right, feature: tree.Indices, threshold: tree.Threshold, cover: tree.Hessian,
			missingLeft: tree.Default, scale: 1,
		}
		if l.Booster.Drop != nil {
			s.scale = l.Booster.Drop[i]
		}
		if err := t.add(s, factorOf, func(f int) { lacks.add(f, l.Names) }); err != nil {
			return fmt.Errorf("trees[%d]: %w", i, err)
		}
	}
	if err := lacks.err(); err != nil {
		return err
	}
	return m.finish(t)
}

// checkHead rejects what would need another evaluator.
func (f *xgbModel) checkHead() error {
	l := &f.Learner
	if len(f.Version) == 0 || f.Version[0] < 1 || f.Version[0] > 3 {
		return fmt.Errorf("version %v: those from 1 to 3 are known", f.Version)
	}
	if l.Param.NumClass != "" && l.Param.NumClass != "0" && l.Param.NumClass != "1" {
		return fmt.Errorf("it has %.60s classes; train with two, objective binary:logistic", l.Param.NumClass)
	}
	if l.Param.NumTarget != "" && l.Param.NumTarget != "0" && l.Param.NumTarget != "1" {
		return fmt.Errorf("it has %.60s targets; train one model for one label", l.Param.NumTarget)
	}
	return nil
}

// trees returns the booster that holds the trees.
func (b *xgbBooster) trees() (*xgbBooster, error) {
	in := b
	switch {
	case b.Name == "dart" && b.GBTree != nil:
		in = b.GBTree
		if len(b.Drop) != len(in.Model.Trees) {
			return nil, fmt.Errorf("weight_drop has %d entries for %d trees", len(b.Drop), len(in.Model.Trees))
		}
	case b.Name != "gbtree":
		return nil, fmt.Errorf("the booster is %.60q; train with gbtree or dart", b.Name)
	default:
		b.Drop = nil
	}
	for i, g := range in.Model.Info {
		if g != 0 {
			return nil, fmt.Errorf("tree_info[%d]: it has more than one class; train with objective binary:logistic", i)
		}
	}
	if s := in.Model.Param.SizeLeaf; s != "" && s != "0" && s != "1" {
		return nil, errors.New("the leaves are vectors; train one model for one label")
	}
	return in, nil
}

// xgbLink returns how an objective turns raw scores into probabilities. binary:logitraw is left out, because versions
// differ in what its base_score is.
func xgbLink(objective string) (link, bool) {
	switch objective {
	case "binary:logistic", "reg:logistic":
		return logistic, true
	case "reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror":
		return clamp, true
	}
	return 0, false
}

// margin returns the raw score before the first tree: base_score, which the file gives as a probability if the
// prediction is one. Since 3.1 it is in brackets.
func (l *xgbLearner) margin() (float32, error) {
	text := strings.TrimSpace(l.Param.BaseScore)
	if in, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSpace(strings.TrimSuffix(in, "]"))
		if strings.Contains(text, ",") {
			return 0, errors.New("learner_model_param.base_score has several values; train one model for one label")
		}
	}
	v, err := strconv.ParseFloat(text, 32)
	base := float32(v)
	if err != nil || isBad(base) {
		return 0, fmt.Errorf("learner_model_param.base_score: %.60q is not a number", l.Param.BaseScore)
	}
	k, ok := xgbLink(l.Objective.Name)
	if !ok {
		return 0, fmt.Errorf("the objective is %.60q; train with binary:logistic", l.Objective.Name)
	}
	if k == clamp {
		return base, nil
	}
	if base <= 0 || base >= 1 {
		return 0, fmt.Errorf("learner_model_param.base_score: %v is not a probability between 0 and 1", base)
	}
	return float32(-math.Log(float64(1/base - 1))), nil
}
