package rules

import (
	"math"
	"strconv"
)

func (p *parser) number() (l Literal, err error) {
	start := p.at
	if p.at < len(p.src) && p.src[p.at] == '-' {
		p.at++
	}
	whole := p.peek()
	if !digits(whole) {
		p.at = start
		return l, p.expected("a number or a text in double quotes")
	}
	p.at += len(whole)
	fraction := ""
	if p.at < len(p.src) && p.src[p.at] == '.' {
		p.at++
		if fraction = p.peek(); !digits(fraction) {
			return l, p.expected("digits after the point")
		}
		p.at += len(fraction)
	}
	l.Pos, l.Text = p.pos(start), p.src[start:p.at]
	if l.Number, err = strconv.ParseFloat(l.Text, 64); err != nil || math.IsInf(l.Number, 0) {
		return l, p.failAt(start, "the number "+short(l.Text)+" is too big", "")
	}
	if fraction == "" {
		l.Int, err = strconv.ParseInt(l.Text, 10, 64)
		l.Whole = err == nil
	}
	return l, nil
}

// text reads a quoted text. \" is a quote; every other backslash stays, so that regexps need no doubling.
func (p *parser) text() (l Literal, err error) {
	start := p.at
	end := start + 1
	escaped := false
	for ; end < len(p.src) && p.src[end] != '"'; end++ {
		if p.src[end] == '\\' && end+1 < len(p.src) {
			end++
			escaped = escaped || p.src[end] == '"'
		}
	}
	if end >= len(p.src) {
		return l, p.failAt(start, "the text has no closing quote", "")
	}
	l.Pos, l.IsText, l.Text = p.pos(start), true, p.src[start+1:end]
	p.at = end + 1
	if escaped {
		l.unescape()
	}
	return l, nil
}

func (l *Literal) unescape() {
	raw := l.Text
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+1 < len(raw) {
			if raw[i+1] != '"' {
				out = append(out, raw[i])
			}
			i++
		}
		out = append(out, raw[i])
	}
	l.Text = string(out)
}

func (l *Literal) place(i int) Pos {
	pos := l.Pos
	pos.Col++
	i = min(max(i, 0), len(l.Text))
	for _, r := range l.Text[:i] {
		if r == '\n' {
			pos = Pos{pos.Line + 1, 1}
			continue
		}
		pos.Col++
		if r == '"' {
			pos.Col++
		}
	}
	return pos
}
