package rules

import (
	"regexp/syntax"
	"unicode/utf8"
)

// threads runs a program on all its paths at once, with Unicode word boundaries.
type threads struct {
	prog  *syntax.Prog
	free  chan *threadSets
	start uint32
}

type threadSets struct {
	now, next, stack []uint32
	in               []uint32 // in[pc] is the step in which pc was last added
	step             uint32
}

func newThreads(prog *syntax.Prog) *threads {
	return &threads{prog: prog, free: make(chan *threadSets, 16), start: uint32(prog.Start)}
}

func (t *threads) match(text string) bool {
	var s *threadSets
	select {
	case s = <-t.free:
	default:
		s = &threadSets{in: make([]uint32, len(t.prog.Inst))}
	}
	found := t.run(s, text)
	select {
	case t.free <- s:
	default:
	}
	return found
}

func (t *threads) run(s *threadSets, text string) bool {
	if s.step > 1<<31 {
		clear(s.in)
		s.step = 0
	}
	before, here, width := rune(-1), rune(-1), 0
	if text != "" {
		here, width = utf8.DecodeRuneInString(text)
	}
	s.step++
	s.now = s.now[:0]
	if t.add(s, &s.now, t.start, boundaries(before, here)) {
		return true
	}
	for at := 0; at < len(text) && len(s.now) > 0; {
		at += width
		before, here, width = here, -1, 0
		if at < len(text) {
			here, width = utf8.DecodeRuneInString(text[at:])
		}
		s.step++
		s.next = s.next[:0]
		flags := boundaries(before, here)
		for _, pc := range s.now {
			if inst := &t.prog.Inst[pc]; inst.MatchRune(before) && t.add(s, &s.next, inst.Out, flags) {
				return true
			}
		}
		s.now, s.next = s.next, s.now
	}
	return false
}

func (t *threads) add(s *threadSets, set *[]uint32, pc uint32, flags syntax.EmptyOp) bool {
	s.stack = append(s.stack[:0], pc)
	for len(s.stack) > 0 {
		pc := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		if s.in[pc] == s.step {
			continue
		}
		s.in[pc] = s.step
		switch inst := &t.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			s.stack = append(s.stack, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			s.stack = append(s.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				s.stack = append(s.stack, inst.Out)
			}
		case syntax.InstFail:
		default:
			*set = append(*set, pc)
		}
	}
	return false
}

// boundaries takes -1 for the ends of the text.
func boundaries(before, here rune) syntax.EmptyOp {
	flags := syntax.EmptyOpContext(before, here) &^ (syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary)
	if isWordRune(before) != isWordRune(here) {
		return flags | syntax.EmptyWordBoundary
	}
	return flags | syntax.EmptyNoWordBoundary
}
