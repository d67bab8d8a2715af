package config

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// secretFiles calls f with each file of a secret that is read at start, and its key.
func (c *Config) secretFiles(f func(path, file string)) {
	look := func(used bool, path, file string) {
		if used && file != "" {
			f(path, file)
		}
	}
	look(true, "admin.tls_key", c.Admin.TLSKey)
	look(c.Admin.OIDC.Issuer != "", "admin.oidc.client_secret_file", c.Admin.OIDC.SecretFile)
	look(len(c.Check.Listen) > 0, "check.secret_file", c.Check.SecretFile)
	look(c.Store.Shared() && c.Keys.File == "", "keys.secret_file", c.Keys.SecretFile)
	look(c.Store.Shared(), "store.redis.password_file", c.Store.Redis.PasswordFile)
	look(c.Traces.Endpoint != "", "traces.authorization_file", c.Traces.AuthorizationFile)
	for i := range c.Alarms.Webhooks {
		look(true, fmt.Sprintf("alarms.webhooks[%d].url_file", i), c.Alarms.Webhooks[i].URLFile)
	}
	for i, l := range c.Listen {
		look(true, fmt.Sprintf("listen[%d].tls_key", i), l.TLSKey)
	}
}

// unreadable says which files that are needed at start can't be read here: another user, or another machine, may be
// able to.
func (c *Config) unreadable() []string {
	var w []string
	look := func(path, file string) {
		f, err := os.Open(file)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			w = append(w, fmt.Sprintf("%s: %v: the gateway does not start until it can read it", path, err))
		}
	}
	if c.Admin.TLSCert != "" {
		look("admin.tls_cert", c.Admin.TLSCert)
	}
	c.secretFiles(look)
	return w
}

// readByOthers says which secrets others than the gateway can read.
func (c *Config) readByOthers() []string {
	own, err := os.Getgroups()
	own = append(own, os.Getegid())
	// as root, the gateway's groups are unknown
	anyGroup := err != nil || os.Geteuid() == 0
	var w []string
	c.secretFiles(func(path, file string) {
		st, err := os.Stat(file)
		if err != nil {
			return // it has been said
		}
		ours := anyGroup
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			ours = ours || slices.Contains(own, int(sys.Gid))
		}
		if who := otherReaders(st.Mode(), ours); who != "" {
			w = append(w, fmt.Sprintf("%s: %s has mode %04o: %s can read the secret: chmod 600 it", path, file,
				st.Mode().Perm(), who))
		}
	})
	return w
}

// otherReaders names the users other than the owner who can read a file; "": none. A group of the gateway's own is the
// usual way to let it read a file of another user's.
func otherReaders(mode fs.FileMode, ours bool) string {
	switch {
	case mode&0o007 != 0:
		return "everybody on this machine"
	case mode&0o070 != 0 && !ours:
		return "a group that the gateway is not in"
	}
	return ""
}
