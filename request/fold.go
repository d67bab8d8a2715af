package request

type bytesOrText interface{ ~[]byte | ~string }

var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// Lower returns c with an ASCII capital in lower case.
func Lower(c byte) byte { return lower[c] }

// AppendLower appends b with its ASCII letters in lower case.
func AppendLower[T bytesOrText](dst []byte, b T) []byte {
	for i := range len(b) {
		dst = append(dst, lower[b[i]])
	}
	return dst
}

// EqualFold compares without the case of ASCII letters: nothing that HTTP compares without case goes beyond ASCII.
func EqualFold[A, B bytesOrText](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && lower[a[i]] != lower[b[i]] {
			return false
		}
	}
	return true
}

// HasPrefixFold reports whether b begins with prefix, compared as EqualFold does.
func HasPrefixFold[A, B bytesOrText](b A, prefix B) bool {
	return len(b) >= len(prefix) && EqualFold(b[:len(prefix)], prefix)
}

// HasSuffixFold reports whether b ends with suffix, compared as EqualFold does.
func HasSuffixFold[A, B bytesOrText](b A, suffix B) bool {
	return len(b) >= len(suffix) && EqualFold(b[len(b)-len(suffix):], suffix)
}

// cgi maps each byte to its form in a CGI variable's name: lighttpd replaces all but letters and digits of ASCII by
// '_', PHP points, every server '-'.
var cgi = func() (t [256]byte) {
	for i := range t {
		t[i] = '-'
		if c := lower[i]; 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			t[i] = c
		}
	}
	return t
}()

// CGI returns a byte of a field's name as CGI programs see it, with '-' for all but letters and digits.
func CGI(c byte) byte { return cgi[c] }

// EqualCGI compares two names of fields as a CGI program does: without case, and with '-' for all but letters and
// digits.
func EqualCGI[A, B bytesOrText](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && cgi[a[i]] != cgi[b[i]] {
			return false
		}
	}
	return true
}

// HasPrefixCGI reports whether name begins with prefix, compared as EqualCGI does.
func HasPrefixCGI[A, B bytesOrText](name A, prefix B) bool {
	return len(name) >= len(prefix) && EqualCGI(name[:len(prefix)], prefix)
}
