package proxy

import (
	"antirobot/proxy/h1"
	"antirobot/proxy/insert"
	"antirobot/request"
	"antirobot/verdict"
)

// inserting puts the script's tag into a page that a browser opens, and requests an encoding that it can open.
func (j *relay) inserting(o *h1.ForwardOptions) {
	script, extends := j.svc.Captcha.Inserts()
	if script == "" || !j.opensPage() {
		return
	}
	if j.insertion == nil {
		j.insertion = &insert.Insertion{}
	}
	host, mount := j.outside()
	if len(mount) > 0 {
		script = string(mount) + script
	}
	j.insertion.Page = insert.Page{
		Script: script, Scheme: j.id.Proto, Host: host, Extend: extends,
		NoneMatch: j.view.Get("If-None-Match"), Reserve: j.x.Reserve, Told: j.inserted,
	}
	o.Rewrite = j.insertion
	if a := insert.Accepts(j.view.Get("Accept-Encoding")); a != nil {
		o.SetFields = append(o.SetFields, request.Field{Name: nameAcceptEncoding, Value: a})
		j.sent = o.SetFields
	}
}

func (j *relay) opensPage() bool {
	v := j.view
	if m := string(v.Method); m != "GET" && m != "HEAD" || j.decision.Cause == verdict.CauseWhite ||
		j.decision.Cause == verdict.CauseOff {
		return false
	}
	if dest := v.Get("Sec-Fetch-Dest"); len(dest) > 0 && string(dest) != "document" {
		return false // a frame
	}
	return j.kind() == kindPage && !insert.ForbidsTransform(v.Get("Cache-Control"))
}

const forbiddenEvery = 3600

func (j *relay) inserted(r insert.Result) {
	m := j.svc.metrics
	m.inserted[r].Inc()
	if r != insert.Policy {
		return
	}
	if last, now := m.forbidden.Load(), j.view.At.Unix(); now-last >= forbiddenEvery &&
		m.forbidden.CompareAndSwap(last, now) {
		j.core.deps.Log.Warn().Str("service", j.svc.Name).Bytes("path", j.view.Path).
			Msg("the page's Content-Security-Policy forbids the script of captcha.evidence_insert: nothing is put " +
				"into it")
	}
}

var nameAcceptEncoding = []byte("Accept-Encoding")
