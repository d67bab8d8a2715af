package proxy

import (
	"bytes"

	"antirobot/request"
)

// longestMount bounds X-Forwarded-Prefix, in bytes.
const longestMount = 128

// outside returns the authority and path prefix under which visitors reach the service, if a trusted proxy rewrites
// them (X-Forwarded-Host, X-Forwarded-Prefix). They are used in URLs for visitors only: some proxies pass these fields
// on from clients, so the host must belong to the same service, and both must be plain.
func (c *Case) outside() (host, mount []byte) {
	v := c.view
	host = v.HostPort
	if !c.core.deps.Resolver.Trusts(v.Peer) {
		return host, nil
	}
	for i := range v.Fields {
		switch f := &v.Fields[i]; {
		case request.EqualFold(f.Name, "X-Forwarded-Host"):
			if h := lastOf(f.Value); c.snap.Router.sameSite(v, h) {
				host = h
			} else {
				host = v.HostPort
			}
		case request.EqualFold(f.Name, "X-Forwarded-Prefix"):
			if mount = bytes.TrimSuffix(lastOf(f.Value), rootPath); !isMount(mount) {
				mount = nil
			}
		}
	}
	return host, mount
}

func lastOf(list []byte) []byte { return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:]) }

// sameSite reports whether the service of a request also serves an authority.
func (r *Router) sameSite(v *request.View, authority []byte) bool {
	name, ok := request.AppendHostName(nil, authority)
	if !ok || !request.PlainHost(string(name)) {
		return false
	}
	site := r.site(name, v.Path, false)
	return site != nil && site == r.site(v.Host, v.Path, false)
}

// isMount reports whether all readers agree on b: segments of letters, digits and "-._~", none of them dots alone.
func isMount(b []byte) bool {
	if len(b) == 0 || len(b) > longestMount || b[0] != '/' {
		return false
	}
	for segment := range bytes.SplitSeq(b[1:], rootPath) {
		if len(bytes.Trim(segment, ".")) == 0 {
			return false
		}
		for _, c := range segment {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' &&
				c != '_' && c != '~' {
				return false
			}
		}
	}
	return true
}
