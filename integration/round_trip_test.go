//go:build integration

package integration

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// apiVersions is a whole ApiVersions v0 request with correlation id 7.
var apiVersions = []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}

// answers asks one real question.
func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	reply, err := roundTrip(conn, apiVersions, 5*time.Second)
	return err == nil && len(reply) > 4 && binary.BigEndian.Uint32(reply) == 7
}

// roundTrip writes bytes and reads one frame.
func roundTrip(conn net.Conn, request []byte, timeout time.Duration) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
