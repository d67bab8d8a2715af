package inline

import "strings"

// FieldText is what a request says in one field.
type FieldText struct {
	Attribute string
	Text      string
	Several   bool // services differ in which value they read
}

// Texts reads the sources as texts, without a message domain. Absent ones are left out. Errors are ErrTooLarge and
// ErrUnreadable.
func (c Config) Texts(in Input) ([]FieldText, error) {
	if err := c.spoken(in); err != nil {
		return nil, err
	}
	r := newReader(in, c)
	var out []FieldText
	for _, s := range c.Sources {
		f, err := r.read(s)
		if err != nil {
			return out, err
		}
		if len(f.values) > 0 {
			out = append(out, FieldText{s.Attribute, strings.Join(f.values, "\n"), f.twice || len(f.values) > 1})
		}
	}
	return out, nil
}
