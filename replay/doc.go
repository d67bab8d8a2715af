// Package replay runs recorded traffic through the code that judges live traffic, and says who would have been stopped,
// when and why.
//
// A log goes through four steps: lines are read (Input), understood (Format), put into the order of their times (Log),
// and served (Gateway). What a Gateway does with a record is what the front does with a request: identity, lists,
// verdict, event, and then the slow half at once, in the same goroutine, so that a run gives the same result each time.
//
// Invariants:
//  1. Time comes from the log alone. It never goes back: a line that is later than the window allows is left out and
//     counted, because it would count as pace at a moment that it does not belong to.
//  2. Memory is bounded whatever the log: by the length of a line, the window, the tables of the verdict and the
//     processor, and the number of subjects that a report keeps apart.
//  3. A line that can't be read is counted and shown, and stops nothing.
//  4. A log knows an address and few header fields. What it does not have is unknown (request.View.Partial), never
//     absent. Cookies and credentials are not read even where a log has them.
//  5. Nothing here touches a network, a store on disk, or the clock of the machine.
package replay
