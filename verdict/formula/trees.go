package formula

import (
	"errors"
	"fmt"
	"math"
)

// trees is an ensemble of binary trees in one slice, with siblings adjacent.
type trees struct {
	base   float32
	nodes  []node
	means  []float32 // by node: what training saw below it; for explanations only
	roots  []uint32
	depths []uint8   // by tree
	moves  []float32 // by factor: see Model.Importance
}

// node is a split or a leaf. A leaf leads to itself whatever x is, because its threshold is NaN, so that trees of
// different depths can be walked in step.
type node struct {
	threshold float32
	left      uint32 // the right child is next to it
	factor    uint16
	missing   uint8   // 1: NaN goes right
	value     float32 // of a leaf
}

// next takes one step from the node at i: x < threshold goes left, as in XGBoost, and NaN goes where training sent it.
// It contains no branch that depends on x, since the processor could not predict it.
func (t *trees) next(i uint32, x []float32) uint32 {
	n := &t.nodes[i]
	v := x[n.factor]
	var right, unknown uint32
	if v >= n.threshold {
		right = 1
	}
	if v != v { // NaN is the only value that differs from itself; this compiles to no call
		unknown = uint32(n.missing)
	}
	return n.left + (right | unknown)
}

// raw sums the leaves in the order of the trees, in float32: bit for bit what XGBoost does. Four trees are walked at
// once, since each step waits for memory.
func (t *trees) raw(x []float32) float32 {
	sum := t.base
	roots := t.roots
	depths := t.depths[:len(roots)]
	for len(roots) >= 4 {
		a, b, c, d := roots[0], roots[1], roots[2], roots[3]
		for range max(depths[0], depths[1], depths[2], depths[3]) {
			a, b, c, d = t.next(a, x), t.next(b, x), t.next(c, x), t.next(d, x)
		}
		sum += t.nodes[a].value
		sum += t.nodes[b].value
		sum += t.nodes[c].value
		sum += t.nodes[d].value
		roots, depths = roots[4:], depths[4:]
	}
	for k, i := range roots {
		for range depths[k] {
			i = t.next(i, x)
		}
		sum += t.nodes[i].value
	}
	return sum
}

func (t *trees) explain(dst, x []float32) {
	for _, i := range t.roots {
		for {
			j := t.next(i, x)
			if j == i {
				break
			}
			dst[t.nodes[i].factor] += t.means[j] - t.means[i]
			i = j
		}
	}
}

// source is one tree as described by a file: parallel slices by node, the root at 0, -1 for no child. Nodes that are
// not reachable from the root are left over from pruning.
type source struct {
	left, right []int32
	feature     []int32
	threshold   []float32 // of a leaf: its value
	missingLeft []flag
	cover       []float32 // weight of the training rows that passed the node; may be empty
	scale       float32   // of the leaves
}

// add copies a tree breadth first. factorOf maps features to factors; a negative factor is recorded in lacks.
func (t *trees) add(s *source, factorOf []int, note func(feature int)) error {
	type item struct {
		from  int32
		depth uint8
	}
	first := len(t.nodes)
	visited := make([]bool, len(s.left))
	queue := []item{{0, 0}}
	visited[0] = true
	var deepest uint8
	for head := 0; head < len(queue); head++ {
		from, depth := queue[head].from, queue[head].depth
		deepest = max(deepest, depth)
		at := uint32(first + head) //nolint:gosec // MaxNodes
		n := node{threshold: float32(math.NaN()), left: at}
		if s.left[from] < 0 && s.right[from] < 0 {
			n.value = s.threshold[from] * s.scale
			if isBad(n.value) {
				return fmt.Errorf("node %d: the leaf is not a number", from)
			}
			t.nodes = append(t.nodes, n)
			continue
		}
		if depth == maxDepth {
			return fmt.Errorf("deeper than %d", maxDepth)
		}
		if err := s.split(&n, from, factorOf, note); err != nil {
			return fmt.Errorf("node %d: %w", from, err)
		}
		n.left = uint32(first + len(queue)) //nolint:gosec // MaxNodes
		for _, child := range [2]int32{s.left[from], s.right[from]} {
			if child <= 0 || int(child) >= len(s.left) || visited[child] {
				return fmt.Errorf("node %d: child %d is none, or has another parent", from, child)
			}
			visited[child] = true
			queue = append(queue, item{child, depth + 1})
		}
		t.nodes = append(t.nodes, n)
		if len(t.nodes) > maxNodes {
			return fmt.Errorf("more than %d nodes", maxNodes)
		}
	}
	t.roots = append(t.roots, uint32(first)) //nolint:gosec // MaxNodes
	t.depths = append(t.depths, deepest)
	covers := make([]float64, 0, len(queue))
	for _, q := range queue {
		covers = append(covers, float64(s.cover[q.from]))
	}
	t.average(first, covers)
	return nil
}

// split sets the question of n: whether a factor is below a threshold.
func (s *source) split(n *node, from int32, factorOf []int, note func(feature int)) error {
	f := s.feature[from]
	if f < 0 || int(f) >= len(factorOf) {
		return fmt.Errorf("feature %d of %d", f, len(factorOf))
	}
	if factorOf[f] < 0 {
		note(int(f))
	}
	if isNaN(s.threshold[from]) {
		return errors.New("the threshold is not a number")
	}
	n.threshold, n.factor = s.threshold[from], uint16(max(factorOf[f], 0)) //nolint:gosec // MaxFactors
	if !s.missingLeft[from] {
		n.missing = 1
	}
	return nil
}

// average computes the means of the tree whose nodes begin at first, from the leaves upwards, weighted by what training
// saw at each leaf, and how far the splits move them. Weights that make no sense count as equal.
func (t *trees) average(first int, covers []float64) {
	t.means = append(t.means, make([]float32, len(covers))...)
	nodes, means := t.nodes[first:], t.means[first:]
	leaf := func(i int) bool { return int(nodes[i].left) == first+i }
	var total float64
	for i, c := range covers {
		if leaf(i) {
			if !(c >= 0) {
				c = math.Inf(1)
			}
			total += c
		}
	}
	useless := total == 0 || math.IsInf(total, 0)
	for i := len(covers) - 1; i >= 0; i-- {
		if leaf(i) {
			means[i] = nodes[i].value
			if useless {
				covers[i] = 1
			}
			continue
		}
		l := int(nodes[i].left) - first
		covers[i] = covers[l] + covers[l+1]
		means[i] = (means[l] + means[l+1]) / 2
		if covers[i] > 0 {
			means[i] = float32((covers[l]*float64(means[l]) + covers[l+1]*float64(means[l+1])) / covers[i])
		}
	}
	for i := range covers {
		if !leaf(i) {
			l := int(nodes[i].left) - first
			moved := covers[l]*float64(abs(means[l]-means[i])) + covers[l+1]*float64(abs(means[l+1]-means[i]))
			t.moves[nodes[i].factor] += float32(moved / covers[0])
		}
	}
}

// finish sets what a model of trees reports about itself.
func (m *Model) finish(t *trees) error {
	if len(t.roots) == 0 {
		return errors.New("there are no trees")
	}
	m.trees = t
	bias := float64(t.base)
	set := map[int]bool{}
	for _, root := range t.roots {
		bias += float64(t.means[root])
	}
	for i := range t.nodes {
		if int(t.nodes[i].left) != i {
			set[int(t.nodes[i].factor)] = true
		}
	}
	m.bias, m.weight = bias, t.moves
	m.used(set)
	return nil
}

func isNaN(v float32) bool { return math.IsNaN(float64(v)) }

func isBad(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }
