//go:build !broken_answer

package controller

// brokenAnswer is a fault that the build tag broken_answer builds in, to show that
// integration/sim catches it.
const brokenAnswer = false
