package redistest

import "syscall"

// endWithUs makes a server end with the test process, however that ends.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
