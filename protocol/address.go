package protocol

import (
	"fmt"
	"net"
	"strconv"
)

// SplitAddress takes HOST:PORT apart.
func SplitAddress(address string) (host string, port uint16, err error) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %s: port: %w", address, err)
	}
	return host, uint16(number), nil
}
