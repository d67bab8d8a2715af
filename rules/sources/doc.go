// Package sources provides the surroundings of rules for requests and messages: counters, lists, models from files,
// and storages. Everything is safe for concurrent use, except Once.
package sources
