//go:build powercut

package vfs

import "sync"

// OS returns the real file system as a disk without power has it.
func OS() FS { return volatile() }

var volatile = sync.OnceValue(NewVolatile)
