// Package sources is what rules ask beside the attributes that they judge: the windowed counters of the gateway, the lists
// of its block base, models of files, and storages for frequencies. Rules over requests and over messages share it.
//
// Everything here is safe for concurrent use.
package sources
