// Package lab rehearses changes of the settings on what a gateway remembers, and keeps those that were applied.
//
// Rules:
//  1. What is applied lies over the configuration's file, in the data directory: the file is never written.
//  2. A rehearsal changes nothing: it reads the journal and the training log, and judges them twice.
//  3. What can't be rehearsed is said, not guessed.
package lab
