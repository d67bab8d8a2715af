package wire

// What another server reports about a request that it holds is parsed as strictly as a direct request: a method, host or
// target that parseRequest would refuse cannot enter this way.

// ValidMethod reports whether method may appear in a request line. CONNECT may not: it is never forwarded.
func ValidMethod(method []byte) bool { return IsName(method) && string(method) != "CONNECT" }

// ValidTarget reports whether target is an origin-form, or "*" of an OPTIONS request.
func ValidTarget(method, target []byte) bool {
	if len(target) == 0 || !All(target, Target) {
		return false
	}
	return target[0] == '/' || string(target) == "*" && string(method) == "OPTIONS"
}
