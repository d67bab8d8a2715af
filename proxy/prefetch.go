package proxy

import (
	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
)

// isPrefetch reports whether a browser loads a page ahead of time, which nobody may ever open.
func isPrefetch(v *request.View) bool {
	if m := string(v.Method); m != "GET" && m != "HEAD" {
		return false
	}
	const prefetch = "prefetch" // alone, or followed by parameters such as ";prerender"
	for i := range v.Fields {
		f := &v.Fields[i]
		if (request.EqualFold(f.Name, "Sec-Purpose") || request.EqualFold(f.Name, "Purpose")) && request.HasPrefixFold(f.Value, prefetch) {
			return len(f.Value) == len(prefetch) || f.Value[len(prefetch)] == ';' || f.Value[len(prefetch)] == ' '
		}
	}
	return false
}

// decideAll gives the verdict, and reports whether the request was a prefetch that is declined: of a visitor who would be
// challenged, would pay with a pass, or is near a limit. Such a prefetch costs nothing: no unit of a pass, no count in a
// session. Browsers load the page again when it is opened; a program is refused as for any other request.
func (j *journey) decideAll() (declined bool) {
	if j.svc.Verdict.Mode != verdict.Enforce || !isPrefetch(j.view) || j.kind() == kindProgram {
		j.decide()
		return false
	}
	j.watch()
	d := &j.decision
	switch {
	case d.Verdict == verdict.Blocked || !d.Judged():
		j.decide()
		return false
	case d.Verdict != verdict.Human, d.Paid, d.Excused.Kind == identity.KindSpravka: // the last is a spent pass that stands in
	case j.core.deps.Decider.IsNear(&j.id, j.svc.Verdict, j.view.At):
	default: // it passes, and counts as any other
		j.decide()
		return false
	}
	j.declined, j.ownPage = true, true // the answer is the gateway's, and no event
	j.answer(j.snap.Captcha.Failed(j.request(), 503, captcha.ReadsNothing))
	return true
}
