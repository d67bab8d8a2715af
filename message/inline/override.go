package inline

import "strings"

// OverrideFields are the fields of the head in which frameworks look for a method that counts instead of the request's.
var OverrideFields = [...]string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// overrideField is the field of forms, of JSON and of the query in which they do.
const overrideField = "_method"

// HasFields says whether a body of this content type has fields that services look up by name.
func HasFields(contentType string) bool {
	c := readContent(contentType)
	return c.speaks("form") || c.speaks("multipart") || c.speaks("json")
}

// Overrides returns the methods that a request claims to be of, beside its own: frameworks take them from the head, the
// query or the body, and some take the first of a list. The errors are those of a body that can't be read.
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
