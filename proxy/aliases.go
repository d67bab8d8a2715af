package proxy

import (
	"bytes"
	"strings"

	"antirobot/request"
)

// Services know a path by several names:
//
// - front controllers serve the rest of a script's path: /index.php/login is /login;
// - frameworks strip a format: /login.json is /login to Rails, and to Spring before 5.3;
// - servers add an extension: /login is /login.php with MultiViews, ASP.NET's friendly URLs, and try_files of nginx.
//
// Settings of one of these paths hold for its other names. Settings of the whole host or of the directory do not: an
// exempt script
// exempts none of the paths that it serves.

// scripts are the extensions of programs that servers run with the rest of the path: PHP, CGI, FastCGI, WSGI, IIS and
// ColdFusion.
var scripts = [...]string{
	"php", "php3", "php4", "php5", "php7", "php8", "phtml", "pht", "phar", "cgi", "fcgi", "fpl", "pl", "py", "rb",
	"wsgi", "asp", "aspx", "cfm",
}

var pageEndings = [...]string{"html", "htm"}

// ending returns the index of the dot of a file name's extension; -1: it has none.
func ending(name []byte) int {
	if i := bytes.LastIndexByte(name, '.'); i > 0 && i < len(name)-1 && len(name)-i-1 <= maxFormat {
		return i
	}
	return -1
}

func oneOf(endings []string, ending []byte) bool {
	for _, e := range endings {
		if request.EqualFold(e, ending) {
			return true
		}
	}
	return false
}

// script returns the bounds of the first segment of a path that names a script and is followed by a slash; 0, 0: none.
func script(path []byte) (begin, end int) {
	if bytes.IndexByte(path, '.') < 0 {
		return 0, 0
	}
	for begin < len(path) && path[begin] == '/' {
		begin++
		n := bytes.IndexByte(path[begin:], '/')
		if n < 0 {
			break
		}
		if dot := ending(path[begin : begin+n]); dot > 0 && oneOf(scripts[:], path[begin+dot+1:begin+n]) {
			return begin, begin + n
		}
		begin += n
	}
	return 0, 0
}

// withoutEnding returns a path without its format; nil if it has none. A number is none: /v1.2 is another version.
func withoutEnding(path []byte) []byte {
	path = bytes.TrimRight(path, "/")
	name := path[bytes.LastIndexByte(path, '/')+1:]
	dot := ending(name)
	if dot < 0 || len(bytes.Trim(name[dot+1:], "0123456789")) == 0 {
		return nil
	}
	return path[:len(path)-len(name)+dot]
}

func directory(path []byte) []byte { return path[:bytes.LastIndexByte(path, '/')+1] }

// extensionless is a setting for a file, by the path without its extension.
type extensionless struct {
	site, service *Service
	prefix        string
	whole         bool // nothing may follow
}

func (s *Service) extensionless() (out []extensionless) {
	for _, p := range s.Paths {
		bare := string(withoutEnding([]byte(p.Prefix)))
		if bare == "" {
			continue
		}
		end := []byte(strings.Trim(p.Prefix[len(bare):], "./"))
		isScript, isPage := oneOf(scripts[:], end), oneOf(pageEndings[:], end)
		taken := false
		for _, other := range s.Paths {
			taken = taken || strings.TrimRight(other.Prefix, "/") == bare
		}
		if !taken && (isScript || isPage) {
			out = append(out, extensionless{s, p.Service, bare, isPage})
		}
	}
	return out
}

func (e *extensionless) covers(path []byte) bool {
	return hasPathPrefix(path, e.prefix, true) && (!e.whole || len(bytes.TrimRight(path, "/")) == len(e.prefix))
}

// addAliases adds the settings of a path's other names. The extension of a subresource (/login.css) is no format.
func (s *readings) addAliases(r *Router, host []byte, paths *request.Paths, part bool) {
	for _, path := range paths.All() {
		s.addFormat(r, host, path, part)
		if begin, end := script(path); end > 0 {
			dir, served := path[:begin], path[end:]
			s.addOwn(r, host, served, rootPath)
			s.addFormat(r, host, served, part)
			if begin > 1 {
				s.joined = append(append(s.joined[:0], dir[:begin-1]...), served...)
				s.addOwn(r, host, s.joined, dir)
				s.addFormat(r, host, s.joined, part)
			}
		}
		for i := range r.bare {
			if e := &r.bare[i]; e.covers(path) && r.site(host, path, true) == e.site {
				s.list = appendService(s.list, e.service)
			}
		}
	}
}

// addFormat adds the settings of a path without its format, unless the path with it has its own.
func (s *readings) addFormat(r *Router, host, path []byte, part bool) {
	if part {
		return
	}
	if bare := withoutEnding(path); bare != nil && r.find(host, path, false) == r.find(host, directory(path), false) {
		s.addOwn(r, host, bare, directory(bare))
	}
}

// addOwn adds the settings of a path itself, without those of its host or directory.
func (s *readings) addOwn(r *Router, host, path, dir []byte) {
	root, above := r.find(host, rootPath, false), r.find(host, dir, false)
	for _, fold := range [...]bool{false, true} {
		if own := r.find(host, path, fold); own != root && own != above {
			s.list = appendService(s.list, own)
		}
	}
}
