package rules

import "strconv"

// Action is what a statement does.
type Action uint8

// The three statements.
const (
	Do Action = iota
	Skip
	Stop
)

// Name is a word of the text with its place.
type Name struct {
	Pos
	Text string
}

// Literal is the value of a parameter: a text or a number.
type Literal struct {
	Pos           // of the first character, the quote of a text
	IsText bool   // else a number
	Text   string // of a text, without quotes; of a number, as it was written
	Number float64
	Whole  bool // the number has no fraction and fits Int
	Int    int64
}

// Param is a named parameter.
type Param struct {
	Name  Name
	Value Literal
}

// Statement is one rule of the text: [label ":"] ["if" ["not"] tags] statement.
type Statement struct {
	Pos
	Label    string // digits without leading zeros; empty: none
	If       []Name // empty: always
	Not      bool
	Action   Action
	Rule     Name    // Do
	Params   []Param // Do
	Mark     []Name  // Do
	Score    float64 // Do: added if the rule is FALSE
	HasScore bool
	Target   string // Skip
	Decision string // Stop
}

// Script is a text that is right in its syntax. Names of rules and parameters have not been looked at.
type Script struct {
	Statements []Statement
}

// String returns the script in canonical form, a statement a line. Parsing it gives the same script.
func (s *Script) String() string {
	var b []byte
	for i := range s.Statements {
		b = append(s.Statements[i].append(b), '\n')
	}
	return string(b)
}

// String returns the statement in canonical form.
func (s *Statement) String() string { return string(s.append(nil)) }

func (s *Statement) append(b []byte) []byte {
	if s.Label != "" {
		b = append(append(b, s.Label...), ": "...)
	}
	if len(s.If) > 0 {
		b = append(b, "if "...)
		if s.Not {
			b = append(b, "not "...)
		}
		b = append(appendNames(b, s.If), ' ')
	}
	switch s.Action {
	case Skip:
		return append(append(b, "skip to "...), s.Target...)
	case Stop:
		return append(append(b, "stop as "...), s.Decision...)
	}
	b = append(append(append(b, "do "...), s.Rule.Text...), '(')
	for i, p := range s.Params {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = p.Value.append(append(append(b, p.Name.Text...), '='))
	}
	b = append(b, ')')
	if len(s.Mark) > 0 {
		b = appendNames(append(b, " mark "...), s.Mark)
	}
	if s.HasScore {
		b = strconv.AppendFloat(append(b, " score "...), s.Score, 'f', -1, 64)
	}
	return b
}

func appendNames(b []byte, names []Name) []byte {
	for i, n := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, n.Text...)
	}
	return b
}

func (l *Literal) append(b []byte) []byte {
	if !l.IsText {
		return append(b, l.Text...)
	}
	b = append(b, '"')
	for i := 0; i < len(l.Text); i++ {
		switch c := l.Text[i]; {
		case c == '\\' && i+1 < len(l.Text): // a pair, kept as it is
			b = append(b, c, l.Text[i+1])
			i++
		case c == '"':
			b = append(b, '\\', '"')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
