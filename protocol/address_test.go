package protocol

import "testing"

func TestSplitAddress(t *testing.T) {
	for address, want := range map[string]uint16{
		"localhost:9092": 9092, "[::1]:65535": 65535,
		"localhost": 0, "localhost:": 0, "localhost:65536": 0, "localhost:-1": 0, "localhost:http": 0, "": 0,
	} {
		host, port, err := SplitAddress(address)
		if port != want || (err == nil) != (want > 0) || (err == nil) != (host != "") {
			t.Errorf("%q: got %q, %d, %v", address, host, port, err)
		}
	}
}
