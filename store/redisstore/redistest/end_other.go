//go:build !linux

package redistest

import "syscall"

// endWithUs does nothing on systems without parent-death signals: a test that is killed may leave its server behind.
func endWithUs() *syscall.SysProcAttr { return nil }
