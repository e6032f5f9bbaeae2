//go:build !powercut

package vfs

// OS returns the real file system.
func OS() FS { return osFS{} }
