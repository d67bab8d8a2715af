package identity

import "unsafe"

// borrow lends b as a string to a call that keeps nothing of it. The bytes must not change before that call returns.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
