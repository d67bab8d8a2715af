package inline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"antirobot/rules"
)

// parseForm reads an urlencoded form. An escape that is wrong stays as it is. The field _charset_, which browsers fill
// in, is believed if nothing else names a charset.
func parseForm(s, charset string) (url.Values, error) {
	out := url.Values{}
	fields := strings.Split(s, "&")
	if len(fields) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
	}
	for _, f := range fields {
		if f == "" {
			continue
		}
		name, value, _ := strings.Cut(f, "=")
		name, value = unescape(name), unescape(value)
		if name == "_charset_" && charset == "" {
			charset = value
		}
		out[name] = append(out[name], value)
	}
	for _, values := range out {
		for i := range values {
			text, err := decodeCharset(values[i], charset)
			if err != nil {
				return nil, err
			}
			values[i] = text
		}
	}
	return out, nil
}

func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			b = append(b, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c | 0x20 - 'a' + 10)
	}
	return -1
}

// decodeCharset turns s into UTF-8. Without a charset it is UTF-8 already, or, if it can't be, windows-1252. What does
// not fit becomes U+FFFD, as in a browser.
func decodeCharset(s, charset string) (string, error) {
	charset = strings.ToLower(strings.TrimSpace(charset))
	switch {
	case charset == "utf-8" || charset == "utf8":
		return strings.ToValidUTF8(s, "\ufffd"), nil
	case charset == "" && utf8.ValidString(s):
		return s, nil
	case charset == "":
		charset = "windows-1252"
	}
	enc, err := htmlindex.Get(charset)
	if err != nil {
		return "", fmt.Errorf("%w: charset %q", ErrUnreadable, rules.Clip(charset, 32))
	}
	text, err := enc.NewDecoder().String(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return text, nil
}

// headerText reads a header field: UTF-8, or Latin-1 where it can't be.
func headerText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, err := charmap.ISO8859_1.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return text
}

// parseMultipart reads the fields of a form with files; a field that says it is a file is read as well.
func parseMultipart(body []byte, boundary, charset string) (url.Values, error) {
	out := url.Values{}
	if boundary == "" {
		return nil, fmt.Errorf("%w: no boundary", ErrUnreadable)
	}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if n == maxParts {
			return nil, fmt.Errorf("%w: more than %d parts", ErrTooLarge, maxParts)
		}
		value, err := io.ReadAll(part) // no longer than the body, whose length is bounded
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		media, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if part.FileName() != "" && !strings.HasPrefix(media, "text/") && !utf8.Valid(value) {
			continue // a picture is no text
		}
		own := charset
		if params["charset"] != "" {
			own = params["charset"]
		}
		text, err := decodeCharset(string(value), own)
		if err != nil {
			return nil, err
		}
		out[part.FormName()] = append(out[part.FormName()], text)
	}
}
