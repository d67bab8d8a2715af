package inline

import "strings"

// OverrideFields are the header fields in which frameworks look for another method.
var OverrideFields = [...]string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

const overrideField = "_method"

// HasFields says whether a body of this content type has fields that services look up by name.
func HasFields(contentType string) bool {
	c := readContent(contentType)
	return c.speaks("form") || c.speaks("multipart") || c.speaks("json")
}

// Overrides returns the methods that a request claims besides its own, in the header, the query or the body; some
// frameworks take the first of a list.
func (c Config) Overrides(in Input) (methods []string, err error) {
	query, err := parseForm(in.Query, nil, c.Charset)
	if err != nil {
		return nil, err
	}
	found := query.of(overrideField).values
	var sources []Source
	for _, name := range OverrideFields {
		sources = append(sources, Source{From: "header", Key: name})
	}
	for _, from := range []string{"form", "multipart"} {
		sources = append(sources, Source{From: from, Key: overrideField})
	}
	sources = append(sources, Source{From: "json", Key: "/" + overrideField})
	r := newReader(in, c)
	for _, s := range sources {
		f, err := r.read(s)
		if err != nil {
			return nil, err
		}
		found = append(found, f.values...)
	}
	for _, v := range found {
		for m := range strings.SplitSeq(v, ",") {
			methods = append(methods, strings.ToUpper(strings.TrimSpace(m)))
		}
	}
	return methods, nil
}
