// Package replay runs recorded traffic through the code that judges live traffic, and reports who would have been
// stopped, when and why.
//
// A log goes through four steps: lines are read (Input), parsed (Format), put in chronological order (Log), and served
// (Gateway). A Gateway does with a record what the front does with a request: identity, lists, verdict, event, and then
// the slow half at once, in the same goroutine, so that every run gives the same result.
//
// Invariants:
//  1. Time comes from the log alone. It never goes back: a line that is later than the window allows is left out and
//     counted, because it would count as pace at the wrong moment.
//  2. Memory is bounded whatever the log: by the length of a line, the window, the tables of the verdict and the
//     processor, and the number of subjects that a report tracks separately.
//  3. A line that can't be read is counted and shown, and does not stop the run.
//  4. A log contains an address and few header fields. What it lacks is unknown (request.View.Partial), never absent.
//     Cookies and credentials are not read even if a log contains them.
//  5. Nothing here uses a network, a store on disk, or the machine's clock.
package replay
