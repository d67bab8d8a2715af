package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// question is what Envoy asks about a request, with its body as far as the file allows.
func (f *front) question(r *http.Request) (*auth.CheckRequest, error) {
	h := &auth.AttributeContext_HttpRequest{
		Id: "1234", Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host, Scheme: "http", Size: r.ContentLength, Protocol: "HTTP/1.1",
	}
	if f.cfg.maxBody > 0 && r.Header.Get("Upgrade") == "" {
		body, err := io.ReadAll(io.LimitReader(r.Body, f.cfg.maxBody+1))
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
		partial := int64(len(body)) > f.cfg.maxBody
		body = body[:min(int64(len(body)), f.cfg.maxBody)]
		if h.RawBody = body; !f.cfg.rawBody {
			h.RawBody, h.Body = nil, string(body)
		}
		r.Header.Set("X-Envoy-Auth-Partial-Body", strconv.FormatBool(partial))
		defer r.Header.Del("X-Envoy-Auth-Partial-Body")
	}
	all := []*core.HeaderValue{{Key: ":authority", RawValue: []byte(r.Host)}, {Key: ":path", RawValue: []byte(h.Path)}, {Key: ":method", RawValue: []byte(r.Method)}, {Key: ":scheme", RawValue: []byte("http")}}
	for name, values := range r.Header {
		if slices.Contains(f.cfg.unasked, strings.ToLower(name)) {
			continue
		}
		for _, v := range values {
			all = append(all, &core.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)})
		}
	}
	if r.ContentLength >= 0 && r.Method != http.MethodGet {
		all = append(all, &core.HeaderValue{Key: "content-length", RawValue: strconv.AppendInt(nil, r.ContentLength, 10)})
	}
	if h.HeaderMap = (&core.HeaderMap{Headers: all}); !f.cfg.rawHeaders {
		h.HeaderMap, h.Headers = nil, joined(all)
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Source:      &auth.AttributeContext_Peer{Address: address(addressOf(r))},
		Destination: &auth.AttributeContext_Peer{Address: address("127.0.0.1")},
		Request:     &auth.AttributeContext_Request{Time: timestamppb.Now(), Http: h},
	}}, nil
}

// joined is the older form of a header, in which repeated fields are one.
func joined(all []*core.HeaderValue) map[string]string {
	m := map[string]string{}
	for _, v := range all {
		if before, ok := m[v.Key]; ok {
			m[v.Key] = before + "," + string(v.RawValue)
		} else {
			m[v.Key] = string(v.RawValue)
		}
	}
	return m
}

func address(ip string) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: ip, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 40000},
	}}}
}

func addressOf(r *http.Request) string {
	addr, _, _ := net.SplitHostPort(r.RemoteAddr)
	return addr
}

// set changes a header by an option of an answer.
func set(h http.Header, o *core.HeaderValueOption) {
	name, value := o.GetHeader().GetKey(), o.GetHeader().GetValue()
	//nolint:staticcheck // deprecated, and what Envoy of every version understands
	if o.GetAppend().GetValue() {
		h.Add(name, value)
		return
	}
	h.Set(name, value)
}

// forward is a plain proxy that keeps Host and the fields of enter, without those between Envoy and the gateway.
// Of requests that want another protocol the field goes with those that the file names, as Envoy has it.
func (f *front) forward(to *url.URL, change func(*http.Response)) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			host := p.In.Host
			p.SetURL(to)
			p.Out.Host = host
			for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto"} {
				p.Out.Header[name] = slices.Clone(p.In.Header[name])
			}
			for _, name := range f.cfg.removed {
				p.Out.Header.Del(name)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if change != nil {
				change(r)
			}
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := r.Header.Values("Upgrade")
		if len(to) != 1 || !slices.ContainsFunc(f.cfg.upgrades, func(known string) bool { return strings.EqualFold(known, to[0]) }) {
			r.Header.Del("Upgrade")
		}
		proxy.ServeHTTP(w, r)
	})
}
