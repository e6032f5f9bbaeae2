package record

// causeTag is the number of the tagged field in which our controllers write why
// they decided a record. Kafka numbers its own fields of a record from 0 without
// gaps, so the two never meet, and its readers skip a number that they do not
// know (KIP-482).
const causeTag = 10_000

// Caused is the part of a record that says why it was written, such as "broker 3:
// session expired". It is about the log, not about the state that the record
// makes: images know nothing of it, nor do records of Kafka's controllers.
type Caused struct {
	Cause string // "" where it is not known
}

func (c *Caused) cause() *string { return &c.Cause }

// end closes the record.
func (c *Caused) end(v visitor) {
	v.because(&c.Cause)
	v.end()
}

// CauseOf returns why a record was written; "" where it does not say.
func CauseOf(rec Record) string {
	if c, ok := rec.(interface{ cause() *string }); ok {
		return *c.cause()
	}
	return ""
}

// SetCause says why a record is written, if it is one that can.
func SetCause(rec Record, cause string) {
	if c, ok := rec.(interface{ cause() *string }); ok {
		*c.cause() = cause
	}
}
