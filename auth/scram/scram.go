// Package scram is what a server keeps of a password (RFC 5802): a salted hash
// from which neither the password nor the client's proof can be had.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
)

// Mechanism is one of the two, by its number in records and requests.
type Mechanism int8

// The mechanisms that Kafka has.
const (
	SHA256 Mechanism = 1
	SHA512 Mechanism = 2
)

// A credential with fewer iterations is too easy to guess, with more too costly
// to check.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// Valid tells whether the mechanism is one of the two.
func (m Mechanism) Valid() bool { return m == SHA256 || m == SHA512 }

func (m Mechanism) hash() hash.Hash {
	if m == SHA512 {
		return sha512.New()
	}
	return sha256.New()
}

// SaltedPassword is what of a password goes over the wire to the controller.
func (m Mechanism) SaltedPassword(password string, salt []byte, iterations int) ([]byte, error) {
	return pbkdf2.Key(m.hash, password, salt, iterations, m.hash().Size())
}

// Keys derives from a salted password what is kept of it.
func (m Mechanism) Keys(salted []byte) (stored, server []byte) {
	sign := func(text string) []byte {
		mac := hmac.New(m.hash, salted)
		mac.Write([]byte(text)) // a hash never returns an error
		return mac.Sum(nil)
	}
	sum := m.hash()
	sum.Write(sign("Client Key"))
	return sum.Sum(nil), sign("Server Key")
}
