package inline

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
)

type content struct {
	media    string
	boundary string
	named    []string
}

// readContent reads a content type, with the parameters that lenient services find.
func readContent(contentType string) (c content) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil && strings.Contains(contentType, ",") {
		return c
	}
	lower := strings.ToLower(contentType)
	c.media = media
	if strings.Count(lower, "boundary") == 1 && !strings.Contains(lower, "boundary*") && !strings.Contains(lower, `\`) {
		c.boundary = params["boundary"] // where all services find the same one
	}
	c.named = namedCharsets(contentType)
	return c
}

func namedCharsets(contentType string) (named []string) {
	for piece := range strings.SplitSeq(strings.ToLower(contentType), "charset") {
		if name, ok := strings.CutPrefix(strings.TrimLeft(piece, " *"), "="); ok {
			name, _, _ = strings.Cut(name, ";")
			named = append(named, name)
		}
	}
	return named
}

func (c *content) charsets() (named charsets, err error) {
	for _, name := range c.named {
		if named, err = named.and(name); err != nil {
			return nil, err
		}
	}
	return named, nil
}

func (c *content) speaks(from string) bool {
	switch from {
	case "form":
		return c.media == "application/x-www-form-urlencoded"
	case "multipart":
		return c.media == "multipart/form-data"
	default:
		return c.media == "application/json" || strings.HasSuffix(c.media, "+json") || c.media == "text/json"
	}
}

// looksJSON reports whether a body may be JSON for services that ignore its type.
func looksJSON(body []byte) bool {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// parseForms reads a urlencoded form, also as a whole in a named charset without ASCII.
func parseForms(body []byte, named charsets, charset string) (out fields, err error) {
	if looksJSON(body) {
		return nil, fmt.Errorf("%w: a form that may be JSON", ErrUnreadable)
	}
	bodies := []string{string(body)}
	for _, name := range named {
		const probe = "&a="
		if text, err := decode(probe, name); err != nil || text == probe {
			continue // unknown charsets are refused with the values
		}
		text, err := decode(bodies[0], name)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, text)
	}
	for _, s := range bodies {
		more, err := parseForm(s, named, charset)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}
