package proxy

import (
	"bytes"
	"strings"

	"antirobot/request"
)

// Services have several names for what they serve, however exactly they read a path:
//
//   - front controllers serve what follows a script: /index.php/login and /shop/index.php/login are /login and /shop/login;
//   - frameworks let a path end in a format: /login.json is /login to Rails, and to Spring before 5.3;
//   - servers add a file's ending: /login is /login.php with Apache's MultiViews, ASP.NET's friendly URLs, and try_files of nginx.
//
// What is set for one of these paths itself holds for its other names, too. What is only set for the whole host or for the directory does
// not: that a script is exempt says nothing of what it calls its paths, and must not end because nothing is set for those.

// scripts are the endings of programs that servers run with the rest of the path in hand: PHP's, those of CGI, FastCGI and WSGI, IIS's and
// ColdFusion's.
var scripts = [...]string{
	"php", "php3", "php4", "php5", "php7", "php8", "phtml", "pht", "phar", "cgi", "fcgi", "fpl", "pl", "py", "rb", "wsgi", "asp", "aspx", "cfm",
}

// pageEndings are those of files that servers find without them.
var pageEndings = [...]string{"html", "htm"}

// ending returns where the ending of a name begins, which has no slash in it, and -1 if it has none.
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

// script returns where the first segment of a path that names a script begins, which follows a slash, and where it ends, with a slash; 0 and 0
// if there is none.
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

// withoutEnding returns a path without the format in which it ends; nil if it ends in none. A number is none: /v1.2 is another version.
func withoutEnding(path []byte) []byte {
	path = bytes.TrimRight(path, "/")
	name := path[bytes.LastIndexByte(path, '/')+1:]
	dot := ending(name)
	if dot < 0 || len(bytes.Trim(name[dot+1:], "0123456789")) == 0 {
		return nil
	}
	return path[:len(path)-len(name)+dot]
}

// directory returns a path up to its last slash.
func directory(path []byte) []byte { return path[:bytes.LastIndexByte(path, '/')+1] }

// extensionless is a setting for a file, by the path under which servers find it without its ending.
type extensionless struct {
	site, service *Service
	prefix        string
	whole         bool // nothing may follow
}

// extensionless returns these for the paths of a service, but for what has settings of its own.
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

// covers reports whether servers may find the file under this path.
func (e *extensionless) covers(path []byte) bool {
	return hasPathPrefix(path, e.prefix, true) && (!e.whole || len(bytes.TrimRight(path, "/")) == len(e.prefix))
}

// addAliases adds the settings of a path's other names. A part of a page (/login.css) is not taken for a format.
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

// addFormat adds what is set for a path without the format that it ends in, unless something is set for it with that.
func (s *readings) addFormat(r *Router, host, path []byte, part bool) {
	if part {
		return
	}
	if bare := withoutEnding(path); bare != nil && r.find(host, path, false) == r.find(host, directory(path), false) {
		s.addOwn(r, host, bare, directory(bare))
	}
}

// addOwn adds what is set for a path itself, and neither for the whole host nor for a directory.
func (s *readings) addOwn(r *Router, host, path, dir []byte) {
	root, above := r.find(host, rootPath, false), r.find(host, dir, false)
	for _, fold := range [...]bool{false, true} {
		if own := r.find(host, path, fold); own != root && own != above {
			s.list = appendService(s.list, own)
		}
	}
}
