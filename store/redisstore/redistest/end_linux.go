package redistest

import "syscall"

// endWithUs lets a server end with the test, however that ends.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
