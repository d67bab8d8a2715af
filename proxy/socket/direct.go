//go:build unix

package socket

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// direct is a connection whose system calls are hidden from the scheduler, which would hand the processor to another
// thread. Deadlines hold. One goroutine may read while another writes.
type direct struct {
	net.Conn
	rc       syscall.RawConn
	in, out  transfer
	receives func(fd uintptr) (done bool) // bound once
	sends    func(fd uintptr) (done bool)
}

type transfer struct {
	b     []byte // left to fill or send
	n     int
	errno unix.Errno // 0: none
}

// Direct returns a direct connection for callers that need no more than net.Conn, such as crypto/tls; nc itself if it
// has no socket.
func Direct(nc net.Conn) net.Conn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nc
	}
	d := &direct{Conn: nc, rc: rc}
	d.receives, d.sends = d.receive, d.send
	return d
}

func (d *direct) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return d.Conn.Read(b)
	}
	d.in = transfer{b: b}
	err := d.rc.Read(d.receives)
	d.in.b = nil
	switch {
	case err != nil:
		return 0, err
	case d.in.errno != 0:
		return 0, os.NewSyscallError("read", d.in.errno)
	case d.in.n == 0:
		return 0, io.EOF
	}
	return d.in.n, nil
}

func (d *direct) receive(fd uintptr) (done bool) {
	t := &d.in
	for {
		t.n, t.errno = RecvNow(int(fd), t.b, 0)
		if t.errno != unix.EINTR {
			return t.errno != unix.EAGAIN
		}
	}
}

func (d *direct) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return d.Conn.Write(b)
	}
	d.out = transfer{b: b}
	err := d.rc.Write(d.sends)
	d.out.b = nil
	if err == nil && d.out.errno != 0 {
		err = os.NewSyscallError("write", d.out.errno)
	}
	return d.out.n, err
}

func (d *direct) send(fd uintptr) (done bool) {
	t := &d.out
	for len(t.b) > 0 {
		n, errno := SendNow(int(fd), t.b)
		switch errno {
		case 0:
			t.n += n
			t.b = t.b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
	return true
}
