package decide

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// scramHashes are the mechanisms by their number on the wire.
var scramHashes = map[int8]func() hash.Hash{1: sha256.New, 2: sha512.New}

// A credential with fewer iterations is too easy to guess, with more too costly
// to check.
const (
	minScramIterations = 4096
	maxScramIterations = 16384
)

// AlterUserScramCredentials decides changes of credentials. Each user stands for
// itself and may be named once. The request's salts are kept: the caller has
// copied them out of the frame.
func AlterUserScramCredentials(img *metadata.Image, req *kmsg.AlterUserSCRAMCredentialsRequest) ([]record.Record, *kmsg.AlterUserSCRAMCredentialsResponse) {
	s := scramChanges{errs: make(map[string]error), records: make(map[string]record.Record)}
	for _, d := range req.Deletions {
		s.take(d.Name, func() (record.Record, error) {
			if err := checkScram(d.Name, d.Mechanism); err != nil {
				return nil, err
			}
			if _, ok := img.ScramCredential(d.Name, d.Mechanism); !ok {
				return nil, protocol.Errorf(protocol.ErrResourceNotFound, "Attempt to delete a user credential that does not exist")
			}
			return &record.RemoveUserScramCredential{Name: d.Name, Mechanism: d.Mechanism}, nil
		})
	}
	for _, u := range req.Upsertions {
		s.take(u.Name, func() (record.Record, error) { return scramCredential(u) })
	}
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	var records []record.Record
	for _, user := range s.users {
		err := s.errs[user]
		if err == nil {
			records = append(records, s.records[user])
		}
		result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		result.User, result.ErrorCode, result.ErrorMessage = user, int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		resp.Results = append(resp.Results, result)
	}
	return records, resp
}

// scramChanges collects one outcome per user.
type scramChanges struct {
	users   []string // in the order of their first mention
	records map[string]record.Record
	errs    map[string]error
}

// take decides for a user. A second change of a user spoils the first, an error
// stays.
func (s *scramChanges) take(user string, decide func() (record.Record, error)) {
	switch {
	case s.errs[user] != nil:
		return
	case s.records[user] != nil:
		s.errs[user] = protocol.Errorf(protocol.ErrDuplicateResource, "A user credential cannot be altered twice in the same request")
		return
	}
	s.users = append(s.users, user)
	s.records[user], s.errs[user] = decide()
}

func checkScram(user string, mechanism int8) error {
	if user == "" {
		return protocol.Errorf(protocol.ErrUnacceptableCredential, "Username must not be empty")
	}
	if scramHashes[mechanism] == nil {
		return protocol.Errorf(protocol.ErrUnsupportedSASLMechanism, "Unknown SCRAM mechanism")
	}
	return nil
}

// scramCredential derives from a salted password what is kept of it (RFC 5802).
func scramCredential(u kmsg.AlterUserSCRAMCredentialsRequestUpsertion) (record.Record, error) {
	if err := checkScram(u.Name, u.Mechanism); err != nil {
		return nil, err
	}
	switch {
	case u.Iterations < minScramIterations:
		return nil, protocol.Errorf(protocol.ErrUnacceptableCredential, "Too few iterations")
	case u.Iterations > maxScramIterations:
		return nil, protocol.Errorf(protocol.ErrUnacceptableCredential, "Too many iterations")
	case len(u.SaltedPassword) == 0:
		return nil, protocol.ErrUnknownServerError // as Kafka, whose library takes no empty key
	}
	newHash := scramHashes[u.Mechanism]
	sign := func(text string) []byte {
		mac := hmac.New(newHash, u.SaltedPassword)
		mac.Write([]byte(text)) // a hash never returns an error
		return mac.Sum(nil)
	}
	stored := newHash()
	stored.Write(sign("Client Key"))
	return &record.UserScramCredential{
		Name: u.Name, Mechanism: u.Mechanism, Iterations: u.Iterations,
		Salt: u.Salt, StoredKey: stored.Sum(nil), ServerKey: sign("Server Key"),
	}, nil
}
