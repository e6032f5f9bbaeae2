// Package klamm is the module's root. It holds no code, only the test of the
// rule by which the packages import each other. The program is cmd/klamm;
// docs/architecture.md says what the packages are.
package klamm
