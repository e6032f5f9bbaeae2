//go:build broken_answer

package controller

// brokenAnswer: what is decided is answered before it is committed.
const brokenAnswer = true
