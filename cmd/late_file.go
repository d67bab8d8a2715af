package cmd

import "os"

// lateFile is made, or overwritten, when it is opened or with the first that is written to it: what fails before leaves
// an earlier file as it was. Only its owner may read it.
type lateFile struct {
	name string
	file *os.File
}

func (l *lateFile) open() (err error) {
	if l.file == nil {
		l.file, err = os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	return err
}

func (l *lateFile) Write(p []byte) (n int, err error) {
	if err := l.open(); err != nil {
		return 0, err
	}
	return l.file.Write(p)
}

func (l *lateFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
