package rules

import (
	"slices"
	"strings"

	"antirobot/rules/texts"
)

// Besides given attributes there are derived ones: the links of texts as NAME.link.host, and the place of an
// address as country and asn. Given attributes take precedence.

var linkParts = [...]string{"count", "host", "path", "length", "short"}

func ofLinks(name string) (text, part string, ok bool) {
	i := strings.LastIndex(name, ".link.")
	if i <= 0 {
		return "", "", false
	}
	part = name[i+len(".link."):]
	return name[:i], part, slices.Contains(linkParts[:], part)
}

const (
	attributeCountry = "country"
	attributeASN     = "asn"
	attributeIP      = "ip"
)

func (e *Env) attribute(name string) (v Value, ok bool, err error) {
	if v, ok = e.Attributes.Attribute(name); ok {
		return v, true, nil
	}
	if name == attributeCountry || name == attributeASN {
		v, ok = e.place(name)
		return v, ok, nil
	}
	if text, part, is := ofLinks(name); is {
		return e.linked(text, part)
	}
	return v, false, nil
}

func (e *Env) place(name string) (v Value, ok bool) {
	ip, has := e.Attributes.Attribute(attributeIP)
	if e.Places == nil || !has || ip.Kind != IP {
		return v, false
	}
	country, asn := e.Places.Place(ip.IP.Unmap())
	if name == attributeCountry {
		return Value{Kind: Text, Text: country}, country != ""
	}
	return Value{Kind: Int, Int: int64(asn)}, asn != 0
}

func (e *Env) linked(text, part string) (v Value, ok bool, err error) {
	from, ok := e.Attributes.Attribute(text)
	if !ok || from.Kind != Text {
		return v, false, nil
	}
	if err := e.bounded(text, from); err != nil {
		return v, false, err
	}
	links := e.links.Links(from.Text)
	n := int64(0)
	for i := range links {
		switch l := &links[i]; part {
		case "count":
			n++
		case "length":
			n = max(n, int64(l.Length))
		case "short":
			if l.Short() {
				n++
			}
		case "host", "path":
			of := linkPart(l, part)
			switch {
			case v.Text == "":
				v.Text = of
			case !slices.Contains(strings.Fields(v.Text), of):
				v.Text += " " + of
			}
		}
	}
	if part == "host" || part == "path" {
		v.Kind = Text
		return v, len(links) > 0, nil
	}
	return Value{Kind: Int, Int: n}, true, nil
}

func linkPart(l *texts.Link, part string) string {
	if part == "host" {
		return l.Host
	}
	return l.Path
}

func severalPerText(name string) (text, part string, ok bool) {
	text, part, ok = ofLinks(name)
	return text, part, ok && (part == "host" || part == "path")
}

func (e *Env) withoutLinks(name string) bool {
	text, _, ok := severalPerText(name)
	if !ok {
		return false
	}
	v, ok := e.Attributes.Attribute(text)
	return ok && v.Kind == Text
}

func (e *Env) eachLink(text, part string, f func(v Value) (bool, error)) (all bool, err error) {
	from, err := e.textOf(text)
	if err != nil {
		return false, err
	}
	links := e.links.Links(from)
	all = true
	for i := range links {
		of := linkPart(&links[i], part)
		if slices.ContainsFunc(links[:i], func(l texts.Link) bool { return linkPart(&l, part) == of }) {
			continue
		}
		pass, err := f(Value{Kind: Text, Text: of})
		if err != nil {
			return false, err
		}
		all = all && pass
	}
	return all, nil
}

func (e *Env) textOf(name string) (string, error) {
	v, err := e.valueOf(name)
	switch {
	case err != nil:
		return "", err
	case v.Kind != Text:
		return "", Faultf(CodeType, "the attribute %s is of type %s, not Text", name, v.Kind)
	}
	return v.Text, nil
}

func missing(name string) error { return Faultf(codeAttribute, "there is no attribute %s", name) }

func (e *Env) valueOf(name string) (Value, error) {
	v, ok, err := e.attribute(name)
	if err != nil {
		return v, err
	}
	if !ok {
		return v, missing(name)
	}
	return v, e.bounded(name, v)
}

func (e *Env) bounded(name string, v Value) error {
	if e.MaxText > 0 && len(v.Text) > e.MaxText {
		return Faultf(codeUnexpected, "the attribute %s has %d bytes, more than the limit of %d", name, len(v.Text),
			e.MaxText)
	}
	return nil
}
