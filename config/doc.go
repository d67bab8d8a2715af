// Package config reads the configuration: the file over the defaults, every problem with the path of its key and its
// line, what each service and path inherits, and which settings wait for a restart.
package config
