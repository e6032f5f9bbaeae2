//go:build !broken_stamp

package replay

// brokenStamp is a fault that the build tag broken_stamp builds in, to show
// that a test catches it: TestBrokenBuildIsCaught.
const brokenStamp = false
