package request

import "unsafe"

// Borrow returns b as a string that shares its bytes: valid as long as b is, and b must not change meanwhile.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
