// Package settings is what the sections of the configuration share: how a problem names its key, how durations, sizes,
// addresses and networks are written, where passwords and certificates are, and which name was probably meant. It is for
// configuration and commands, not for requests: it is slow and allocates.
package settings
