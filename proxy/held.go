package proxy

import (
	"context"
	"errors"
	"strings"

	"antirobot/captcha"
	"antirobot/message/queue"
	"antirobot/request"
	"antirobot/verdict"
)

// Queue keeps messages for moderators. *queue.Queue implements it.
type Queue interface {
	Hold(ctx context.Context, it *queue.Item, r *queue.Request, fingerprint [32]byte) error
}

// putAside queues a message for a moderator, or applies the route's action if the queue refuses. carried is a request
// that was carried through a captcha; nil: the client's own.
func (j *moderation) putAside(ctx context.Context, r *messageRoute, p *posted, values map[string]any,
	ruling *verdict.Ruling, carried *captcha.SavedRequest,
) {
	if ruling.Action != verdict.RuleQueue || j.svc.Verdict.Mode != verdict.Enforce {
		return
	}
	err := errNoQueue
	if q := j.core.deps.Queue; q != nil {
		it := j.heldItem(r, p, values, ruling)
		kept := &queue.Request{Body: p.body}
		if carried != nil {
			it.Method, it.Target = carried.Method, carried.Target
			for _, f := range carried.Header {
				kept.Fields = append(kept.Fields, queue.Field{Name: f.Name, Value: f.Value})
			}
		} else {
			kept.Fields = j.sentFields()
		}
		err = q.Hold(ctx, it, kept, r.fingerprint(values, ruling))
	}
	switch {
	case err == nil:
	case errors.Is(err, queue.ErrFull):
		ruling.Action = r.queueFull
	default:
		ruling.Action = r.failed
		j.core.deps.Log.Error().Err(err).Bytes("request_id", j.idText[:]).
			Msg("a message could not be kept for a person")
	}
}

var errNoQueue = errors.New("there is no queue")

func (j *moderation) heldItem(r *messageRoute, p *posted, values map[string]any, ruling *verdict.Ruling) *queue.Item {
	it := &queue.Item{
		Service: j.svc.Name, Route: r.name, Partner: r.cfg.Partner, Domain: r.cfg.Domain,
		RequestID: string(j.idText[:]),
		Decision:  ruling.Decision, Rule: ruling.Why(), Tags: ruling.AppendTags(nil), Score: ruling.Model,
		Opinions: ruling.Opinions,
		Client:   j.id.Addr.String(), Subject: j.id.Winner().String(), Method: string(j.view.Method),
		Target: string(j.view.Target),
		Host:   string(j.view.HostPort), Proto: j.id.Proto, Webhook: r.webhook,
		Message: make(map[string]any, len(values)),
	}
	for name, v := range values {
		if text, ok := v.(string); ok {
			v = strings.ToValidUTF8(text, "\ufffd")
		}
		it.Message[name] = v
	}
	if t := p.header("Content-Type"); len(t) > 0 {
		it.Type = strings.ToValidUTF8(t[0], "\ufffd")
	}
	return it
}

func (j *moderation) sentFields() (out []queue.Field) {
	for i := range j.view.Fields {
		f := &j.view.Fields[i]
		if !captcha.Carried(j.view, string(f.Name)) || j.svc.drop(f.Name) {
			continue
		}
		value := f.Value
		if request.EqualFold(f.Name, "Cookie") {
			if value = request.AppendCookiesWithout(nil, value, j.svc.ownCookies); len(value) == 0 {
				continue
			}
		}
		out = append(out, queue.Field{Name: string(f.Name), Value: string(value)})
	}
	return out
}
