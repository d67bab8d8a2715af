package rules

import "strconv"

// Action is the kind of a statement.
type Action uint8

// The statements.
const (
	Do Action = iota
	Skip
	Stop
)

// Name is a word with its place.
type Name struct {
	Pos
	Text string
}

// Literal is the value of a parameter.
type Literal struct {
	Pos
	IsText bool
	Text   string // without quotes, or the number as written
	Number float64
	Whole  bool
	Int    int64
}

// Param is a named parameter.
type Param struct {
	Name  Name
	Value Literal
}

// Statement is one rule.
type Statement struct {
	Pos
	Label    string
	If       []Name
	Not      bool
	Action   Action
	Rule     Name
	Params   []Param
	Mark     []Name
	Score    float64
	HasScore bool
	Target   string
	Decision string
}

// Script is syntactically valid rules.
type Script struct {
	Statements []Statement
}

// String returns the script in canonical form, one statement a line.
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
