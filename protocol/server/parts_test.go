package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// region is a range of a file; released counts the calls of Release.
type region struct {
	file     *os.File
	pos      int64
	size     int
	hide     bool // has no file to send from
	short    int  // bytes that ReadAt lacks
	released atomic.Int32
}

func (r *region) Size() int { return r.size }

func (r *region) ReadAt(p []byte, off int64) (int, error) {
	n := min(len(p), r.size-r.short-int(off))
	if n <= 0 {
		return 0, io.EOF
	}
	return r.file.ReadAt(p[:n], r.pos+off)
}
func (r *region) File() (*os.File, int64, bool) { return r.file, r.pos, !r.hide }
func (r *region) Release()                      { r.released.Add(1) }

// segment is a file of bytes that tell where they are.
func segment(t testing.TB, size int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, content
}

// certificate is one that a test's client trusts.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// Answers in parts arrive as one, whatever the parts are made of and whatever
// the connection is; every region is released once.
func TestParts(t *testing.T) {
	file, content := segment(t, 6<<20)
	type piece struct{ pos, size int } // pos −1: bytes
	for name, pieces := range map[string][]piece{
		"bytes":          {{-1, 10}},
		"empty":          {{-1, 0}, {0, 0}},
		"small region":   {{-1, 10}, {100, 1000}, {-1, 3}},
		"large region":   {{-1, 10}, {5, 2 << 20}, {-1, 1}},
		"only a region":  {{7, sendfileFrom}},
		"mixed":          {{-1, 5000}, {1, sendfileFrom - 1}, {9, sendfileFrom}, {-1, 2}, {-1, 100_000}, {3, 300_000}, {1 << 20, 4 << 20}, {-1, 3 << 20}},
		"many small":     append(append(make([]piece, 0), many(piece{-1, 30}, 2000)...), many(piece{17, 900}, 3000)...),
		"around a flush": {{-1, flushSize - 20}, {-1, 10}, {-1, 10}, {-1, 10}, {4, 5000}},
	} {
		for _, hide := range []bool{false, true} {
			for _, secure := range []bool{false, true} {
				t.Run(name+map[bool]string{true: ", no file"}[hide]+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
					var parts []Part
					var regions []*region
					var want []byte
					for _, p := range pieces {
						if p.pos < 0 {
							parts = append(parts, Part{Bytes: content[:p.size]})
							want = append(want, content[:p.size]...)
							continue
						}
						r := &region{file: file, pos: int64(p.pos), size: p.size, hide: hide}
						regions, parts = append(regions, r), append(parts, Part{Region: r})
						want = append(want, content[p.pos:p.pos+p.size]...)
					}
					p := servePartsTo(t, parts, secure)
					p.send(5, metadataRequest())
					if body := p.expect(5); !bytes.Equal(body[1:], want) {
						t.Fatalf("%d bytes, want %d, or changed", len(body)-1, len(want))
					}
					p.send(6, listGroupsRequest())
					p.expect(6)
					for i, r := range regions {
						if n := r.released.Load(); n != 1 {
							t.Errorf("region %d released %d times", i, n)
						}
					}
				})
			}
		}
	}
}

func many[T any](v T, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// servePartsTo returns a client of a server that answers Metadata with the parts.
func servePartsTo(t *testing.T, parts []Part, secure bool) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	cert, pool := certificate(t)
	if secure {
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	serveOn(t, Config{}, ln, listGroups(empty), metadata(func(context.Context, *Request) Answer { return Answer{Parts: parts} }))
	if !secure {
		return connect(t, addr)
	}
	nc, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc)
}

// A region that is shorter than it says ends the connection: the frame's size
// has been promised. All regions are released, those behind it too.
func TestShortRegion(t *testing.T) {
	file, _ := segment(t, 100_000)
	for name, bad := range map[string]*region{
		"file":     {file: file, pos: 50_000, size: 100_000},
		"ReadAt":   {file: file, size: 100_000, hide: true, short: 1},
		"at once":  {file: file, size: 20_000, hide: true, short: 20_000},
		"tiny":     {file: file, size: 10, short: 10},
		"past end": {file: file, pos: 200_000, size: 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := &region{file: file, size: 50_000}, &region{file: file, size: 10}
			p := servePartsTo(t, []Part{{Region: before}, {Region: bad}, {Region: after}}, false)
			p.send(1, metadataRequest())
			_, err := io.Copy(io.Discard, p.r)
			if err != nil && !errors.Is(err, net.ErrClosed) && isTimeout(err) {
				t.Fatal(err)
			}
			for i, r := range []*region{before, bad, after} {
				if n := r.released.Load(); n != 1 {
					t.Errorf("region %d released %d times", i, n)
				}
			}
		})
	}
}

// Regions are released too when nobody is there to send them to.
func TestRegionsOfAGoneClient(t *testing.T) {
	file, _ := segment(t, 100_000)
	r, waits := &region{file: file, size: 100_000}, make(chan struct{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := serveOn(t, Config{}, ln, metadata(func(context.Context, *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer {
			close(waits)
			<-ctx.Done()
			return Answer{Parts: []Part{{Region: r}}}
		}}
	}))
	p := connect(t, ln.Addr().String())
	p.send(1, metadataRequest())
	<-waits
	_ = p.Close()
	stop()
	if n := r.released.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}
