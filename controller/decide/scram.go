package decide

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/auth/scram"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// AlterUserScramCredentials decides changes of credentials. Each user stands for
// itself and may be named once. The request's salts are kept: the caller has
// copied them out of the frame.
func AlterUserScramCredentials(img *metadata.Image, req *kmsg.AlterUserSCRAMCredentialsRequest) ([]record.Record, *kmsg.AlterUserSCRAMCredentialsResponse) {
	s := scramChanges{supported: img.Level().HasScram(), errs: make(map[string]error), records: make(map[string]record.Record)}
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
	supported bool     // by metadata.version
	users     []string // in the order of their first mention
	records   map[string]record.Record
	errs      map[string]error
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
	if !s.supported {
		s.errs[user] = protocol.Errorf(protocol.ErrUnsupportedVersion, "The current metadata version does not support SCRAM")
		return
	}
	s.records[user], s.errs[user] = decide()
}

func checkScram(user string, mechanism int8) error {
	if user == "" {
		return protocol.Errorf(protocol.ErrUnacceptableCredential, "Username must not be empty")
	}
	if !scram.Mechanism(mechanism).Valid() {
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
	case u.Iterations < scram.MinIterations:
		return nil, protocol.Errorf(protocol.ErrUnacceptableCredential, "Too few iterations")
	case u.Iterations > scram.MaxIterations:
		return nil, protocol.Errorf(protocol.ErrUnacceptableCredential, "Too many iterations")
	case len(u.SaltedPassword) == 0:
		return nil, protocol.ErrUnknownServerError // as Kafka, whose library takes no empty key
	}
	stored, server := scram.Mechanism(u.Mechanism).Keys(u.SaltedPassword)
	return &record.UserScramCredential{
		Name: u.Name, Mechanism: u.Mechanism, Iterations: u.Iterations,
		Salt: u.Salt, StoredKey: stored, ServerKey: server,
	}, nil
}
