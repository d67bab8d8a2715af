package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Delivery sends approved messages to their services, or to webhooks. Safe for concurrent use.
type Delivery struct {
	core   *Core
	secret []byte // signs webhooks' bodies; nil: unsigned
	client http.Client
}

// NewDelivery returns a Delivery of the gateway's services; secret signs requests to webhooks, unless empty.
func (g *Gateway) NewDelivery(secret string) *Delivery {
	return &Delivery{core: g.Core, secret: []byte(secret), client: http.Client{
		Transport:     &http.Transport{Proxy: nil, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Deliver sends an approved message to its service.
func (d *Delivery) Deliver(ctx context.Context, it *queue.Item, r *queue.Request) (queue.Answer, error) {
	if it.Webhook != "" {
		return d.post(ctx, it, r)
	}
	all := d.core.snap.Load().Router.services
	at := slices.IndexFunc(all, func(s *Service) bool { return s.Name == it.Service })
	if at < 0 {
		return queue.Answer{}, fmt.Errorf("there is no service %s any more", it.Service)
	}
	return d.replay(ctx, all[at], it, r)
}

// replay sends the request as the client sent it, with the gateway's fields, on a connection of its own.
func (d *Delivery) replay(ctx context.Context, svc *Service, it *queue.Item, r *queue.Request) (a queue.Answer,
	err error,
) {
	head, err := deliveryHead(svc, it, r)
	if err != nil {
		return a, err
	}
	up, err := svc.Upstream.Get(ctx, true)
	if err != nil {
		return a, err
	}
	if by, ok := ctx.Deadline(); ok {
		_ = up.SetDeadline(by)
	}
	stop := context.AfterFunc(ctx, func() { _ = up.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err = up.Write(append(head, r.Body...)); err == nil {
		a, err = readAnswer(up.R, it.Method)
	}
	if err != nil {
		up.Discard(err)
		return queue.Answer{}, err
	}
	up.Discard(nil)
	return a, nil
}

const (
	maxDeliveryAnswer = 64 << 10
	maxInterim        = 8
)

func readAnswer(from *bufio.Reader, method string) (queue.Answer, error) {
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	for n := 0; err == nil && res.StatusCode < 200 && n < maxInterim; n++ {
		_ = res.Body.Close()
		res, err = http.ReadResponse(from, &http.Request{Method: method})
	}
	if err != nil {
		return queue.Answer{}, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxDeliveryAnswer)
	return queue.Answer{Status: res.StatusCode, Location: res.Header.Get("Location")}, nil
}

func deliveryHead(svc *Service, it *queue.Item, r *queue.Request) ([]byte, error) {
	for _, s := range []string{it.Method, it.Target, it.Host} {
		if s == "" || bytes.ContainsAny([]byte(s), " \r\n") {
			return nil, errors.New("the kept request is not valid")
		}
	}
	dst := append([]byte(it.Method), ' ')
	dst = append(append(dst, it.Target...), " HTTP/1.1\r\n"...)
	field := func(name, value string) {
		dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
	}
	field("Host", it.Host)
	for _, f := range r.Fields {
		name, value := []byte(f.Name), []byte(f.Value)
		if svc.drop(name) || bytes.ContainsAny(append(name, value...), "\r\n") {
			continue
		}
		if request.EqualFold(name, "Cookie") {
			if value = request.AppendCookiesWithout(nil, value, svc.ownCookies); len(value) == 0 {
				continue
			}
		}
		field(f.Name, string(value))
	}
	field("X-Forwarded-For", it.Client)
	field("X-Forwarded-Host", it.Host)
	field("X-Forwarded-Proto", it.Proto)
	field("X-Real-IP", it.Client)
	field("X-Request-Id", it.RequestID)
	if svc.Config.TellService {
		field("X-Antirobot-Verdict", "human")
	}
	field("X-Antirobot-Mark", decisionOf(it)+";approved")
	field("X-Antirobot-Delivery", it.ID)
	field("Content-Length", strconv.Itoa(len(r.Body)))
	field("Connection", "close")
	return append(dst, "\r\n"...), nil
}

func decisionOf(it *queue.Item) string {
	if it.Decision == "" {
		return "FAILED"
	}
	return it.Decision
}

type webhookBody struct {
	*queue.Item
	Fields []queue.Field `json:"fields"`
	Body   []byte        `json:"body"` // base64
}

func (d *Delivery) post(ctx context.Context, it *queue.Item, r *queue.Request) (queue.Answer, error) {
	body, err := json.Marshal(webhookBody{it, r.Fields, r.Body})
	if err != nil {
		return queue.Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, it.Webhook, bytes.NewReader(body))
	if err != nil {
		return queue.Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Antirobot-Delivery", it.ID)
	if len(d.secret) > 0 {
		mac := hmac.New(sha256.New, d.secret)
		mac.Write(body)
		req.Header.Set("X-Antirobot-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	res, err := d.client.Do(req)
	if err != nil {
		return queue.Answer{}, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxDeliveryAnswer)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return queue.Answer{}, fmt.Errorf("the webhook answers %d", res.StatusCode) // redirects are not followed
	}
	return queue.Answer{Status: res.StatusCode}, nil
}
