package rpc

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"antirobot/message"
	"antirobot/rules"
)

// AkismetPrefix begins the paths of Akismet's API.
const AkismetPrefix = "/1.1/"

// AkismetAnswer is an answer of Akismet's API.
type AkismetAnswer struct {
	Status int
	Text   string
	Help   string // X-Akismet-Debug-Help
	Tip    string // X-Akismet-Pro-Tip
}

const akismetThanks = "Thanks for making the web a better place."

// Akismet answers verify-key, comment-check, submit-spam and submit-ham. The first label of host may be the key.
func (s *Server) Akismet(ctx context.Context, call, host string, form url.Values) AkismetAnswer {
	key, _, _ := strings.Cut(host, ".")
	key = cmp.Or(form.Get("api_key"), form.Get("key"), key)
	partner, known := s.deps.System.PartnerOfKey(key)
	switch call {
	case "verify-key":
		if known {
			return AkismetAnswer{Status: 200, Text: "valid"}
		}
	case "comment-check", "submit-spam", "submit-ham":
	default:
		return AkismetAnswer{Status: 404, Text: "there is no such call"}
	}
	if !known {
		s.refused.Inc()
		return AkismetAnswer{
			Status: 200, Text: "invalid",
			Help: "The key is not one of message.akismet.key or of a partner.",
		}
	}
	for _, field := range []string{"blog", "user_ip"} {
		if form.Get(field) == "" {
			return AkismetAnswer{
				Status: 200, Text: "Missing required field: " + field + ".",
				Help: "Missing required field: " + field + ".",
			}
		}
	}
	d, err := s.deps.System.Domain(partner, s.cfg.Akismet.Domain)
	if err == nil {
		d.Requested("akismet." + call)
		return s.akismetCall(ctx, call, d, form)
	}
	return akismetFailed(s.faultOf("akismet."+call, err))
}

func akismetFailed(f *rules.Fault) AkismetAnswer {
	return AkismetAnswer{Status: 500, Text: "error", Help: fmt.Sprintf("%d: %s", f.Code, f.Text)}
}

func (s *Server) akismetCall(ctx context.Context, call string, d *message.Domain, form url.Values) AkismetAnswer {
	values, err := akismetValues(d, form)
	var spam bool
	var decision string
	switch {
	case err != nil:
	case call == "comment-check":
		spam, decision, err = s.akismetCheck(ctx, d, form, values)
	default:
		err = s.akismetTrain(ctx, d, values, call == "submit-ham")
		if err == nil {
			return AkismetAnswer{Status: 200, Text: akismetThanks}
		}
	}
	switch {
	case err != nil:
		return akismetFailed(s.faultOf("akismet."+call, err))
	case !spam:
		return AkismetAnswer{Status: 200, Text: "false"}
	case decision == "BLOCK" || decision == "INVALID":
		return AkismetAnswer{Status: 200, Text: "true", Tip: "discard"}
	}
	return AkismetAnswer{Status: 200, Text: "true"}
}

// akismetCheck judges by the domain's rules, or else by its model. The API's roles and authors for tests have fixed
// answers.
func (s *Server) akismetCheck(ctx context.Context, d *message.Domain, form url.Values,
	values map[string]any,
) (spam bool, decision string, err error) {
	author := form.Get("comment_author")
	switch {
	case form.Get("user_role") == "administrator":
		return false, "", nil
	case author == "viagra-test-123" || author == "akismet-guaranteed-spam" ||
		form.Get("comment_author_email") == "akismet-guaranteed-spam@example.com":
		return true, "", nil
	}
	f, err := d.Firewall("messageAnalyzer")
	if err != nil {
		return false, "", err
	}
	if text, ok := values["text"].(string); ok && f.Rules() == "" {
		m, err := d.Model("model")
		if err != nil {
			return false, "", err
		}
		return !m.Good(message.TrimText(text)), "", nil
	}
	o, err := s.deps.System.Judge(ctx, d, values, false)
	return err == nil && o.Decision != "OK" && o.Decision != rules.Unknown, o.Decision, err
}

func (s *Server) akismetTrain(ctx context.Context, d *message.Domain, values map[string]any, good bool) error {
	m, err := d.Model("model")
	if err != nil {
		return err
	}
	text, _ := values["text"].(string)
	if text == "" {
		return rules.Faultf(message.CodeAttribute, "the comment has no text")
	}
	return s.deps.System.Train(ctx, m, message.TrimText(text), good)
}

var akismetFields = map[string]string{
	"author": "comment_author", "email": "comment_author_email", "url": "comment_author_url", "type": "comment_type",
	"agent": "user_agent", "referrer": "referrer", "permalink": "permalink", "blog": "blog", "role": "user_role",
	"language": "blog_lang",
}

// akismetValues makes a message of a comment. Author and link join the text unless messages have attributes for
// them.
func akismetValues(d *message.Domain, form url.Values) (map[string]any, error) {
	known, err := d.Attributes()
	if err != nil {
		return nil, err
	}
	values := make(map[string]any)
	text := akismetText(form, "comment_content")
	has := func(name string, kind rules.Kind) bool {
		return slices.ContainsFunc(known, func(a message.AttributeConfig) bool {
			return a.Name == name &&
				a.Type == kind.String()
		})
	}
	for name, field := range akismetFields {
		if has(name, rules.Text) && form.Has(field) {
			values[name] = akismetText(form, field)
		}
	}
	for _, name := range []string{"author", "url"} {
		if more := akismetText(form, akismetFields[name]); more != "" && !has(name, rules.Text) {
			text += "\n" + more
		}
	}
	if has("text", rules.Text) {
		values["text"] = rules.Clip(text, message.MaxText)
	}
	addr, err := netip.ParseAddr(form.Get("user_ip"))
	if err == nil && has("ip", rules.IP) {
		values["ip"] = addr.WithZone("")
	}
	if has("from", rules.UniqueInt) {
		h := fnv.New64a()
		who := cmp.Or(form.Get("comment_author_email"), form.Get("comment_author"), form.Get("user_ip"))
		_, _ = io.WriteString(h, strings.ToLower(strings.TrimSpace(who)))
		values["from"] = int64(h.Sum64() >> 1) //nolint:gosec // 63 bits
	}
	if err != nil {
		return nil, rules.Faultf(message.CodeType, "user_ip is not an address")
	}
	return values, nil
}

func akismetText(form url.Values, name string) string {
	s := form.Get(name)
	if utf8.ValidString(s) {
		return s
	}
	if enc, err := htmlindex.Get(form.Get("blog_charset")); err == nil {
		if text, err := enc.NewDecoder().String(s); err == nil {
			return strings.ToValidUTF8(text, "\ufffd")
		}
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
