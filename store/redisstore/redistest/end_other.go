//go:build !linux

package redistest

import "syscall"

// endWithUs does nothing without parent-death signals: a killed test may leave its server.
func endWithUs() *syscall.SysProcAttr { return nil }
