package rules

import (
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

const docHead = `# Rules

Generated from the table of rules (package rules); do not edit.

Rules are a list of statements, run from first to last. They judge a set of typed attributes: statements mark it with tags,
add to its score, and decide.

` + "```" + `
firewall  ::= rule+
rule      ::= [label ":"] ["if" ["not"] tags] statement
statement ::= "do" name "(" [param {"," param}] ")" ["mark" tags] ["score" number]
            | "skip" "to" label
            | "stop" "as" decision
param     ::= name "=" ( number | "\"" string "\"" )
tags      ::= tag {"," tag}
` + "```" + `

- White space and newlines only separate: two statements may share a line, and one may span several.
- ` + "`#`" + ` starts a comment that extends to the end of the line.
- Tags consist of letters, digits and ` + "`_`" + `; labels of digits; names and decisions of letters and digits. Keywords are whole
  words in lower case; a tag may have the name of a keyword as long as the rule can still be parsed: ` + "`if do do ruleTrue()`" + `.
- Numbers may have a sign and a fraction. In a string ` + "`\\\"`" + ` is a quote; every other backslash is literal, so regexps need no
  double escaping.
- ` + "`do`" + ` runs a rule. If the rule is FALSE, the tags after ` + "`mark`" + ` are set and the number after ` + "`score`" + ` is added to the score.
- ` + "`if a, b`" + `: only if all of the tags are set; ` + "`if not a, b`" + `: only if none of them is.
- ` + "`skip to N`" + ` continues at the next statement below that has the label N, whose own ` + "`if`" + ` is then evaluated; without such a
  label the analysis ends with error 2004.
- ` + "`stop as X`" + ` ends with the decision X; reaching the end of the rules means UNKNOWN.
- An error in a rule ends the analysis: 2006 for a missing attribute, 1005 for one of the wrong type.

## Attributes that follow from others

What a text (here: the attribute text; any other of type Text likewise) links to:

| attribute | type | what it is |
|---|---|---|
| text.link.count | Int | the number of links |
| text.link.host | Text | their hosts, in lower case and ASCII, without ports |
| text.link.path | Text | their paths, without query and fragment |
| text.link.length | Int | the length of the longest link in code points |
| text.link.short | Int | the number of links to well-known services that shorten links |

A link is what begins with a scheme or www, or is a host with a path or a usual end; it is found in disguise too (hxxp, [.],
invisible characters). Without a link there is no host and no path. Rules that count or look up (counters, frequencies, events,
buckets, listCheck) take each host and each path of several on its own: they are FALSE if one of them is, and TRUE without
doing anything if there is no link. So does a counter of the type of links or hosts (105, 106) over a text. Other rules see
several hosts or paths with spaces between.
`
