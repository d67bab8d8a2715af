package message

import (
	"strings"

	"antirobot/rules"
)

// StartRules names the built-in rules for messages inside requests.
const StartRules = "start-1"

// startRules apply in domains without rules; a line that needs a missing component is left out. See
// docs/message-start-card.md.
const startRules = `do hasAttribute(attribute="text") mark wordless
if wordless stop as UNKNOWN
do messageFloodCheck() mark flood score 2
do messageFrequencyCheck() mark frequent score 1
do nearDuplicateCheck() mark alike score 1
do rangeCheck(attribute="text.link.count", max=2) mark links score 1
do rangeCheck(attribute="text.link.short", max=0) mark shortened score 1
do regexpCheck(regexp="(?is).*(?:\[url[=\]]|\[/url\]|<a\s[^>]*href)", attribute="text") mark nomarkup
if not nomarkup do ruleFalse() mark markup score 2
do modelClassify() mark spam score 2
do messageLogPut()
do scoreOver(limit=1.5) mark bad
if bad stop as SPAM
stop as OK
`

func (s *System) startOf(d *Domain) *rules.Program {
	if s.cfg.StartRules != StartRules {
		return nil
	}
	var lacks string
	if _, err := d.storage("storage"); err != nil {
		lacks += " messageFrequencyCheck nearDuplicateCheck"
	}
	if _, err := d.Model("model"); err != nil {
		lacks += " modelClassify"
	}
	if _, err := d.messageLog("messageLog"); err != nil {
		lacks += " messageLogPut"
	}
	if p, ok := s.starts.Load(lacks); ok {
		return p.(*rules.Program) //nolint:forcetypeassert // nothing else is put there
	}
	var text strings.Builder
	for line := range strings.Lines(startRules) {
		rule, _, _ := strings.Cut(strings.TrimPrefix(line, "do "), "(")
		if !strings.Contains(lacks+" ", " "+rule+" ") {
			text.WriteString(line)
		}
	}
	p, err := rules.Compile(text.String(), s.options)
	if err != nil {
		panic("BUG: the start rules are wrong: " + err.Error())
	}
	s.starts.Store(lacks, p)
	return p
}
