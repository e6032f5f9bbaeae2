package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Valid is what a key asks of its value beyond the type. String says it as a
// reader of an error message wants it.
type Valid interface {
	check(key string, v Value) error
	String() string
}

// atLeast is a lower bound, inclusive.
type atLeast int64

func (min atLeast) check(key string, v Value) error {
	if v.Int < int64(min) {
		return invalid(key, strconv.FormatInt(v.Int, 10), "Value must be at least "+strconv.FormatInt(int64(min), 10))
	}
	return nil
}

func (min atLeast) String() string { return "at least " + strconv.FormatInt(int64(min), 10) }

// between is a range of whole numbers, both ends inclusive.
type between struct{ min, max int64 }

func (r between) check(key string, v Value) error {
	if err := atLeast(r.min).check(key, v); err != nil {
		return err
	}
	if v.Int > r.max {
		return invalid(key, strconv.FormatInt(v.Int, 10), "Value must be no more than "+strconv.FormatInt(r.max, 10))
	}
	return nil
}

func (r between) String() string {
	return strconv.FormatInt(r.min, 10) + " to " + strconv.FormatInt(r.max, 10)
}

// fraction is a range of doubles whose ends are whole numbers, inclusive. NaN
// is in every range, as it is for Kafka. A negative max means no upper end.
type fraction struct{ min, max int64 }

func (r fraction) check(key string, v Value) error {
	if v.Double < float64(r.min) {
		return invalid(key, formatDouble(v.Double), "Value must be at least "+strconv.FormatInt(r.min, 10))
	}
	if r.max >= 0 && v.Double > float64(r.max) {
		return invalid(key, formatDouble(v.Double), "Value must be no more than "+strconv.FormatInt(r.max, 10))
	}
	return nil
}

func (r fraction) String() string {
	if r.max < 0 {
		return atLeast(r.min).String()
	}
	return between(r).String()
}

// betweenOr is a range of whole numbers with one more value outside of it.
type betweenOr struct{ min, max, or int64 }

func (r betweenOr) check(key string, v Value) error {
	if v.Int != r.or && (v.Int < r.min || v.Int > r.max) {
		return invalid(key, strconv.FormatInt(v.Int, 10), "Value must be between "+strconv.FormatInt(r.min, 10)+
			" and "+strconv.FormatInt(r.max, 10)+" or equal to "+strconv.FormatInt(r.or, 10))
	}
	return nil
}

func (r betweenOr) String() string {
	return between{r.min, r.max}.String() + " or " + strconv.FormatInt(r.or, 10)
}

// oneOf is a set of words. The order is that of Kafka's error text.
type oneOf []string

func (words oneOf) check(key string, v Value) error {
	if !slices.Contains(words, v.Text) {
		return invalid(key, v.Text, "String must be one of: "+strings.Join(words, ", "))
	}
	return nil
}

func (words oneOf) String() string { return "one of " + strings.Join(words, ", ") }

// oneOfFold is oneOf without regard to case.
type oneOfFold []string

func (words oneOfFold) check(key string, v Value) error {
	if !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, v.Text) }) {
		return invalid(key, v.Text, "String must be one of (case insensitive): "+strings.Join(words, ", "))
	}
	return nil
}

func (words oneOfFold) String() string { return oneOf(words).String() + " (in any case)" }

// listOf is a list whose items are words of a set. An empty list is fine where
// orEmpty says so.
type listOf struct {
	words   []string
	orEmpty bool
}

func (l listOf) check(key string, v Value) error {
	if len(v.List) == 0 && !l.orEmpty {
		return errorf("Configuration '%s' must not be empty. Valid values include: [%s]", key, strings.Join(l.words, ", "))
	}
	if slices.Contains(v.List, "") {
		return errorf("Configuration '%s' values must not be empty.", key)
	}
	for _, item := range v.List {
		if err := oneOf(l.words).check(key, Value{Text: item}); err != nil {
			return err
		}
	}
	return nil
}

func (l listOf) String() string { return "of " + strings.Join(l.words, ", ") }

// itemList is a list of anything, but not of nothing: items are not empty, and
// at least one is there unless orEmpty.
type itemList struct{ orEmpty bool }

func (l itemList) check(key string, v Value) error {
	if len(v.List) == 0 && !l.orEmpty {
		return errorf("Configuration '%s' must not be empty. Valid values include: any non-empty value", key)
	}
	if slices.Contains(v.List, "") {
		return errorf("Configuration '%s' values must not be empty.", key)
	}
	return nil
}

func (l itemList) String() string { return "without empty items" }

// notEmpty is a text with at least one character.
type notEmpty struct{}

func (notEmpty) check(key string, v Value) error {
	if v.Text == "" {
		return invalid(key, v.Text, "String must be non-empty")
	}
	return nil
}

func (notEmpty) String() string { return "not empty" }

// throttledReplicas is the value of *.replication.throttled.replicas.
type throttledReplicas struct{}

var throttledReplica = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func (throttledReplicas) check(key string, v Value) error {
	// A list of one star means all. Kafka forgives one comma at the end.
	items := v.List
	if len(items) == 1 && items[0] == "*" {
		return nil
	}
	if n := len(items); n > 1 && items[n-1] == "" {
		items = items[:n-1]
	}
	for _, item := range items {
		if !throttledReplica.MatchString(item) {
			return invalid(key, "["+strings.Join(v.List, ", ")+"]", key+" must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...")
		}
	}
	return nil
}

func (throttledReplicas) String() string { return "* or a list of PARTITION:BROKER" }
