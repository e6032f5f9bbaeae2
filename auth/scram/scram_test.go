package scram

import (
	"encoding/base64"
	"testing"
)

// The client and server keys of RFC 7677's example, where a client proves that
// it knows "pencil".
func TestKeys(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	salted, err := SHA256.SaltedPassword("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	stored, server := SHA256.Keys(salted)
	if got := base64.StdEncoding.EncodeToString(stored); got != "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=" {
		t.Errorf("stored key %s", got)
	}
	if got := base64.StdEncoding.EncodeToString(server); got != "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=" {
		t.Errorf("server key %s", got)
	}
	if salted, err = SHA512.SaltedPassword("pencil", salt, 4096); err != nil || len(salted) != 64 {
		t.Errorf("%d bytes, %v", len(salted), err)
	}
}
