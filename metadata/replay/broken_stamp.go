//go:build broken_stamp

package replay

// brokenStamp: a batch with an old stamp is applied.
const brokenStamp = true
