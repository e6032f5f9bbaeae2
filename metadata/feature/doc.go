// Package feature is Kafka's feature levels as data (KIP-584, KIP-1022): which
// features there are, what a release finalizes of them, and what the level of
// metadata.version allows.
//
// metadata.version is the contract of all nodes about what may stand in the
// metadata log. Its level says which records exist, in which version each is
// written, and what else they may hold; a record above it would stop the nodes
// that do not know it. So whoever writes records asks a Level first:
//
//	level := img.Level()
//	if level.HasDirectories() { ... }
//	frame = record.AppendFrame(frame, rec, level)
//
// The package is tables: it imports nothing of ours and keeps no state. Start
// reading at Level, then All.
package feature
