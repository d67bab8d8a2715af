package requestrules

import "unsafe"

// borrowed is b as a string that shares its bytes: valid as long as b is, and b must not change meanwhile.
func borrowed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
