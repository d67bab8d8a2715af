// Package sources provides what rules use besides the attributes that they judge: the windowed counters of the gateway,
// the lists of its block base, models from files, and storages for frequencies. Rules for requests and for messages
// share it.
//
// Everything here is safe for concurrent use.
package sources
