package admin

import (
	"context"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"antirobot/message/rpc"
	"antirobot/request"
)

// akismet answers plugins that speak Akismet's API. They show a key in each call, so they need no token.
func (s *Server) akismet(ctx *fasthttp.RequestCtx, path string) error {
	system, err := s.openMessages(ctx)
	if err != nil {
		return err
	}
	form, err := akismetForm(ctx)
	if err != nil {
		return &problem{
			status: fasthttp.StatusBadRequest, Code: "invalid_request",
			Message: "send a form, urlencoded or multipart",
		}
	}
	work, done := context.WithTimeout(context.Background(), maxWork)
	defer done()
	host := string(request.HostName(ctx.Request.Header.Host()))
	a := system.Akismet(work, strings.TrimPrefix(path, rpc.AkismetPrefix), host, form)
	ctx.SetStatusCode(a.Status)
	ctx.SetContentType("text/plain; charset=utf-8")
	if a.Help != "" {
		ctx.Response.Header.Set("X-Akismet-Debug-Help", a.Help)
	}
	if a.Tip != "" {
		ctx.Response.Header.Set("X-Akismet-Pro-Tip", a.Tip)
	}
	ctx.SetBodyString(a.Text)
	return nil
}

func akismetForm(ctx *fasthttp.RequestCtx) (url.Values, error) {
	if strings.HasPrefix(strings.ToLower(string(ctx.Request.Header.ContentType())), "multipart/form-data") {
		form, err := ctx.MultipartForm()
		if err != nil {
			return nil, err
		}
		return form.Value, nil
	}
	return url.ParseQuery(string(ctx.PostBody()))
}
