package controllerclient

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// answerInside answers a CreateTopics request as the controller would: with the
// header that its version has.
func answerInside(request []byte) []byte {
	version := int16(binary.BigEndian.Uint16(request[2:]))
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = version
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode = "a", int16(protocol.ErrTopicAlreadyExists)
	resp.Topics = append(resp.Topics, t)
	data := append([]byte(nil), request[4:8]...) // correlation id
	if resp.IsFlexible() {
		data = append(data, 1, 9, 2, 'x', 'y') // a tag, to be skipped
	}
	return resp.AppendTo(data)
}

func TestForward(t *testing.T) {
	for _, version := range []int16{2, 4, 5, 7} {
		synctest.Test(t, func(t *testing.T) {
			q := newQuorum(1)
			c := q.client(Config{Leader: q.known})
			defer c.Close()
			req := kmsg.NewPtrCreateTopicsRequest()
			req.Version = version
			resp, err := c.Forward(t.Context(), Wrap(req, Origin{ClientID: "me", CorrelationID: 7, PrincipalType: "User", PrincipalName: "ANONYMOUS"}))
			if err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			topics := resp.(*kmsg.CreateTopicsResponse).Topics
			if len(topics) != 1 || topics[0].Topic != "a" || topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) {
				t.Errorf("v%d: got %+v", version, topics)
			}
		})
	}
}

// The bytes are what Kafka's EnvelopeRequest carries: the principal behind its
// version, the request behind its header without a frame size.
func TestWrapGolden(t *testing.T) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 4
	req.TopicNames = []string{"a"}
	req.TimeoutMillis = 1000
	f := Wrap(req, Origin{ClientID: "me", CorrelationID: 7, PrincipalType: "User", PrincipalName: "ANONYMOUS", Host: []byte{127, 0, 0, 1}})
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"principal", f.envelope.RequestPrincipal, "0000" + "05" + hex.EncodeToString([]byte("User")) + "0a" + hex.EncodeToString([]byte("ANONYMOUS")) + "00" + "00"},
		{"request", f.envelope.RequestData, "0014" + "0004" + "00000007" + "00026d65" + "00" + "02" + "0261" + "000003e8" + "00"},
		{"address", f.envelope.ClientHostAddress, "7f000001"},
	} {
		if hex.EncodeToString(c.got) != c.want {
			t.Errorf("%s: got %x, want %s", c.what, c.got, c.want)
		}
	}
}

// What is forwarded must not change with the bytes of the frame it came in.
func TestWrapCopies(t *testing.T) {
	frame := []byte("\x00\x00\x00\x02aa")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.UnknownTags.Set(77, frame[4:])
	f := Wrap(req, Origin{})
	before := bytes.Clone(f.envelope.RequestData)
	copy(frame, "zzzzzz")
	if !bytes.Equal(before, f.envelope.RequestData) {
		t.Error("the wrapped request changed with its frame")
	}
}

func TestBrokenAnswers(t *testing.T) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	whole := func() []byte {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		resp.Version = 6
		return resp.AppendTo([]byte{0, 0, 0, 7, 2, 1, 1, 'x', 2, 3, 'a', 'b', 'c'})
	}()
	if err := Wrap(req, Origin{}).read(whole); err != nil {
		t.Fatalf("whole answer: %v", err)
	}
	for n := range len(whole) {
		if err := Wrap(req, Origin{}).read(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken for an answer", n, len(whole))
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0})
	f.Add([]byte{0, 0, 0, 7, 1, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(_ *testing.T, data []byte) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 2
		_ = Wrap(req, Origin{}).read(data)
	})
}
