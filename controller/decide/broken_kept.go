//go:build broken_kept

package decide

// broken: who did not stop in order keeps its places in ISRs and ELRs.
const broken = brokenKept
