package request

// bytesOrText is what names are read from and compared with.
type bytesOrText interface{ ~[]byte | ~string }

// lower maps each byte to itself, and capital letters of ASCII to small ones.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// Lower returns a capital letter of ASCII as a small one, and every other byte as it is.
func Lower(c byte) byte { return lower[c] }

// AppendLower appends b with its ASCII letters in lower case.
func AppendLower[T bytesOrText](dst []byte, b T) []byte {
	for i := range len(b) {
		dst = append(dst, lower[b[i]])
	}
	return dst
}

// EqualFold reports whether a and b are equal but for the case of ASCII letters. Other letters are compared as they
// are: nothing that HTTP compares without case goes beyond ASCII.
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

// cgi maps each byte to what it is in the name of a CGI variable: lighttpd has '_' there for all but letters and digits of
// ASCII, PHP for points, everybody for '-'.
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

// EqualCGI compares two names of fields as a CGI program sees them: without case, and with '-' for all but letters and digits.
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
