//go:build !unix

package server

// canTry tells that tryRead works here.
const canTry = false

func (in *input) tryRead(uintptr) bool { panic("server: no raw reads on this system") }
