package rules

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// WriteDoc writes docs/rules.md.
func WriteDoc(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docHead)
	for _, part := range []struct {
		title string
		rules []*rule
	}{
		{"Rules for messages", append(messageRules(), modelRules()...)},
		{"Rules for scores, requests and counters", requestRules()},
		{"Rules for events and time", generalRules()},
	} {
		b.WriteString("\n## " + part.title + "\n")
		for _, r := range part.rules {
			r.writeDoc(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *rule) writeDoc(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n%s\n", r.name, r.doc)
	if r.needs != 0 {
		fmt.Fprintf(b, "Needs %s.\n", r.needs)
	}
	if len(r.params) == 0 {
		return
	}
	b.WriteString("\n| parameter | type | default | meaning |\n|---|---|---|---|\n")
	for _, p := range r.params {
		value := "`" + p.value + "`"
		switch p.value {
		case required:
			value = "must be given"
		case "None":
			value = "none"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", p.name, p.kind, value, p.doc)
	}
}

//go:embed head.md
var docHead string
