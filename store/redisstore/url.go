package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Address is the location of the store, parsed from its URL.
type Address struct {
	Hosts    []string
	User     string
	Password string
	TLS      bool
	Cluster  bool
	Master   string // the master's name at the sentinels; empty: no sentinels
	DB       int
}

const defaultPort, defaultSentinelPort = "6379", "26379"

// ParseURL reads the address of a store:
//
//	redis://[user[:password]@]host[:port][/db]
//	redis-cluster://[user[:password]@]host[:port],host[:port],…
//	redis-sentinel://[user[:password]@]host[:port],host[:port],…/master[/db]
//
// and rediss://, rediss-cluster://, rediss-sentinel:// with TLS. Users and passwords are percent-encoded. Errors do not
// repeat the URL, which may hold a password.
func ParseURL(text string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("store address: no scheme; write it as redis://host:6379")
	}
	a := &Address{TLS: strings.HasPrefix(scheme, "rediss")}
	sentinel := false
	switch scheme {
	case "redis", "rediss":
	case "redis-cluster", "rediss-cluster":
		a.Cluster = true
	case "redis-sentinel", "rediss-sentinel":
		sentinel = true
	default:
		return nil, fmt.Errorf("store address: %.40q is none of "+
			"redis, rediss, redis-cluster, rediss-cluster, redis-sentinel and rediss-sentinel", scheme)
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := a.readUser(rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	if strings.ContainsAny(rest, "?# \t\r\n") {
		return nil, errors.New("store address: nothing may follow the host and the database; all else is in " +
			"store.redis")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := a.readHosts(hosts, sentinel); err != nil {
		return nil, err
	}
	return a, a.readPath(path, sentinel)
}

func (a *Address) readUser(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	a.User, err1 = url.PathUnescape(user)
	a.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("store address: user or password is not percent-encoded")
	}
	return nil
}

func (a *Address) readHosts(text string, sentinel bool) error {
	port := defaultPort
	if sentinel {
		port = defaultSentinelPort
	}
	for h := range strings.SplitSeq(text, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]"), port
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if host == "" || err != nil || n == 0 || strings.ContainsAny(host, "[]@") ||
			(strings.Contains(host, ":") && net.ParseIP(host) == nil) {
			return errors.New("store address: a host is not a host:port such as 10.0.0.5:6379 or [2001:db8::5]:6379")
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(host, strconv.FormatUint(n, 10)))
	}
	if len(a.Hosts) > 1 && !a.Cluster && !sentinel {
		return errors.New("store address: several hosts are a cluster (redis-cluster://) or sentinels " +
			"(redis-sentinel://)")
	}
	return nil
}

func (a *Address) readPath(path string, sentinel bool) error {
	db := path
	if sentinel {
		if a.Master, db, _ = strings.Cut(path, "/"); a.Master == "" {
			return errors.New("store address: redis-sentinel://host,host/NAME needs the name of the master")
		}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 16)
	switch {
	case err != nil:
		return errors.New("store address: the database behind the host is not a number")
	case a.Cluster && n != 0:
		return errors.New("store address: a cluster has database 0 only")
	}
	a.DB = int(n)
	return nil
}

// String returns the address without its password.
func (a *Address) String() string {
	scheme := "redis"
	if a.TLS {
		scheme = "rediss"
	}
	switch {
	case a.Cluster:
		scheme += "-cluster"
	case a.Master != "":
		scheme += "-sentinel"
	}
	s := scheme + "://" + strings.Join(a.Hosts, ",")
	if a.Master != "" {
		s += "/" + a.Master
	}
	if a.DB != 0 {
		s += "/" + strconv.Itoa(a.DB)
	}
	return s
}
