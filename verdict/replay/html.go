package replay

import "io"

// HTML writes.
func (res *Result) HTML(w io.Writer) error { return nil }
