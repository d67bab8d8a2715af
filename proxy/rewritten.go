package proxy

import (
	"bytes"

	"antirobot/request"
)

// rewriteFields replace the request's path at some services (IIS with a rewriting module, Symfony and Zend before
// 2018). The gateway drops them; beside a balancer they may reach the service.
var rewriteFields = [...]string{"X-Original-URL", "X-Rewrite-URL"}

// rewritten returns the path that a field names; nil: none.
func rewritten(f *request.Field) []byte {
	if len(f.Name) != len(rewriteFields[0]) && len(f.Name) != len(rewriteFields[1]) {
		return nil
	}
	for _, name := range rewriteFields {
		if !request.EqualCGI(f.Name, name) {
			continue
		}
		path := bytes.TrimSpace(f.Value)
		if i := bytes.Index(path, []byte("://")); i > 0 {
			path = path[i+len("://"):]
			path = path[max(0, bytes.IndexByte(path, '/')):]
		}
		if i := bytes.IndexByte(path, '?'); i >= 0 {
			path = path[:i]
		}
		return path
	}
	return nil
}

func rewrite(v *request.View, fields []request.Field) {
	v.Fields = fields
	v.Named = named(v)
}

// named returns the first path in the head that differs from the request's; nil: none.
func named(v *request.View) []byte {
	for i := range v.Fields {
		if path := rewritten(&v.Fields[i]); len(path) > 0 && !bytes.Equal(path, v.Path) {
			return path
		}
	}
	return nil
}

// addRewritten adds the settings of paths that the head names, and reports whether there are any.
func (s *readings) addRewritten(r *Router, v *request.View) (named bool) {
	if r.single {
		return false
	}
	for i := range v.Fields {
		path := rewritten(&v.Fields[i])
		if len(path) == 0 || path[0] != '/' || bytes.Equal(path, v.Path) {
			continue
		}
		named = true
		var paths request.Paths
		paths.Read(path)
		for _, found := range r.readings(nil, v.Host, &paths) {
			s.list = appendService(s.list, found)
		}
		s.addAliases(r, v.Host, &paths, false)
	}
	return named
}
