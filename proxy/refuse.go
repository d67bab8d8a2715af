package proxy

import (
	"bytes"

	"antirobot/captcha"
	"antirobot/request"
)

// Refuse implements h1.Refuser.
func (g *Gateway) Refuse(status int, v *request.View) ([]request.Field, []byte) {
	a, ok := g.snap.Load().unserved(status, &captcha.Request{View: v})
	if !ok {
		return nil, nil
	}
	return appendFields(nil, a.Header), a.Body
}

// unserved makes the answer to a request that reaches no service; ok is false if its client states no form, or wants
// neither a page nor data.
func (s *Snapshot) unserved(status int, q *captcha.Request) (_ captcha.Response, ok bool) {
	r := readerOf(q.View)
	if s.Unserved == nil || r == captcha.ReadsNothing {
		return captcha.Response{}, false
	}
	q.Service = s.Unserved
	return s.Captcha.Failed(q, status, r), true
}

func readerOf(v *request.View) captcha.Reader {
	var f purpose
	v.ReadPurpose(&f.Purpose)
	switch accept := v.Accept(); {
	case f.XHR, accept.PrefersJSON(), len(f.Mode) > 0 && f.isScript(v):
		return captcha.ReadsJSON
	case f.isPart(v, true):
		return captcha.ReadsNothing
	case accept.WantsHTML():
		return captcha.ReadsPage
	case bytes.Contains(f.Accept, []byte("xml")):
		return captcha.ReadsXML
	}
	return captcha.ReadsNothing
}

func (j *journey) unrouted(status int, problem string) {
	a, ok := j.snap.unserved(status, &captcha.Request{View: j.view, RequestID: string(j.idText[:])})
	if !ok {
		a = captcha.Response{
			Status: status, Body: []byte(problem),
			Header: []captcha.HeaderField{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}},
		}
	}
	j.answer(a)
}
