package wire

// Requests that another server reports are parsed as strictly as direct ones.

// ValidMethod reports whether method may be forwarded; CONNECT may not.
func ValidMethod(method []byte) bool { return IsName(method) && string(method) != "CONNECT" }

// ValidTarget reports whether target is an origin-form, or "*" of OPTIONS.
func ValidTarget(method, target []byte) bool {
	if len(target) == 0 || !All(target, Target) {
		return false
	}
	return target[0] == '/' || string(target) == "*" && string(method) == "OPTIONS"
}
