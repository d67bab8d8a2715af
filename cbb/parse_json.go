package cbb

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// readJSON collects entries from any JSON document: strings in arrays, and the values of the members used by publishers
// of crawler ranges. Everything else is skipped.
func (p *parser) readJSON(r io.Reader) error {
	type frame struct {
		object bool
		key    string
		onKey  bool // the next token is a key
	}
	dec := json.NewDecoder(r)
	var stack []frame
	n := 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			if len(stack) > 0 || dec.InputOffset() == 0 {
				return fmt.Errorf("json: %w", io.ErrUnexpectedEOF)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("json: %w", err)
		}
		var top *frame
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		if s, ok := tok.(string); ok && top != nil && top.object && top.onKey {
			top.key, top.onKey = s, false
			continue
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if top != nil {
			top.onKey = top.object // a value, or the beginning of one: a key follows
		}
		switch t := tok.(type) {
		case json.Delim:
			if len(stack) == maxDepth {
				return fmt.Errorf("json: nested deeper than %d", maxDepth)
			}
			stack = append(stack, frame{object: t == '{', onKey: t == '{'})
		case string:
			if top == nil || top.object && !namesNetwork(top.key) {
				continue
			}
			n++
			p.lines++
			if err := p.jsonEntry(t); err != nil {
				p.reject(n, t, err)
			}
			if p.err != nil {
				return p.err
			}
		}
	}
}

func (p *parser) jsonEntry(s string) error {
	if s = strings.TrimSpace(s); len(s) > maxLine {
		return fmt.Errorf("string of %d bytes, the limit is %d", len(s), maxLine)
	}
	return p.entry(s, "")
}

// namesNetwork reports whether a JSON member of this name holds a network.
func namesNetwork(key string) bool {
	switch strings.ToLower(key) {
	case "ipv4prefix", "ipv6prefix", "ip_prefix", "ipv6_prefix", "prefix", "cidr", "network", "ip", "ipv4", "ipv6", "address":
		return true
	}
	return false
}
