// Package vfs is the file calls that storage makes, so that a test can put
// something else below them: a file system in memory that forgets, at a power
// cut, whatever was not synced.
//
// FS is a handful of calls on paths, File on one open file. OS is the real
// thing. Mem keeps files in memory and tells apart what a process sees and
// what the disk holds: the bytes of a file become durable by File.Sync, its
// name by FS.SyncDir on the directory, and a directory's own name by SyncDir
// on its parent. Nothing else makes anything durable, which is less than most
// file systems give and exactly what POSIX promises.
//
// A test stops the power at the n-th change (CutPowerAt), takes what is left
// (Crash: strictly the synced state, or with a random source also some of the
// rest, as a kernel that wrote back on its own would leave it) and starts
// again on it. Kill leaves what a killed process leaves: everything written.
// SetHook makes single calls fail.
//
// Volatile is the real thing with that forgetfulness: what was not synced is in the
// memory of the process, so kill -9 is a power cut. With the build tag powercut it is
// what OS returns: such a klamm shows what a machine without power would have lost.
//
// Start reading at vfs.go.
package vfs
