package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// Type is the type of a config value, with the number that DescribeConfigs
// gives it.
type Type int8

// The types of DescribeConfigs v3.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String names the type as Kafka's error texts do.
func (t Type) String() string {
	names := [...]string{Boolean: "BOOLEAN", String: "STRING", Int: "INT", Short: "SHORT", Long: "LONG", Double: "DOUBLE", List: "LIST", Class: "CLASS", Password: "PASSWORD"}
	if t <= 0 || int(t) >= len(names) {
		return "UNKNOWN"
	}
	return names[t]
}

// Key is one config key: a row of the table of topic keys or of broker keys.
type Key struct {
	Name    string
	Type    Type
	Default string // in the form that DescribeConfigs answers
	Null    bool   // there is no default: the value is null until it is set
	Valid   Valid  // what a parsed value must be, beyond its type

	// Synonyms are the broker keys that give this topic key its default, the
	// first one that is set wins. Broker keys have none.
	Synonyms []Synonym

	// Required marks a broker key that must be in the file, since it has no
	// default and Kafka does not start without it either.
	Required bool

	// Internal keys can be set, but no answer lists them.
	Internal bool

	// NoEffect marks topic keys that nothing here goes by yet. They can be set.
	NoEffect bool

	// Doc is what DescribeConfigs answers when asked for documentation.
	Doc string
}

// Sensitive reports whether the value must never be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// Synonym is a broker key that stands for a topic key.
type Synonym struct {
	Name string
	// Factor turns the broker key's unit into the topic key's: 3,600,000 for
	// log.roll.hours, which stands for segment.ms. Zero means the same unit.
	Factor int64
	// Unlimited: every negative number stands for -1.
	Unlimited bool
}

// convert gives the synonym's value in the unit of the topic key.
func (s Synonym) convert(value string) string {
	if s.Factor == 0 && !s.Unlimited {
		return value
	}
	n, err := strconv.ParseInt(trim(value), 10, 64)
	switch {
	case err != nil:
		return value
	case s.Unlimited && n < 0:
		return "-1"
	}
	return strconv.FormatInt(n*max(s.Factor, 1), 10)
}

// Error says what is wrong with a config value, in Kafka's words. It unwraps
// to protocol.ErrInvalidConfig.
type Error struct {
	Text string
}

func (e *Error) Error() string { return e.Text }

// Unwrap gives the error code that a client sees.
func (e *Error) Unwrap() error { return protocol.ErrInvalidConfig }

func errorf(format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...)}
}

func invalid(key, value, why string) error {
	return errorf("Invalid value %s for configuration %s: %s", value, key, why)
}

// Value is a parsed config value. Only the field of the key's type is set.
type Value struct {
	Bool   bool
	Int    int64 // Int, Short and Long
	Double float64
	Text   string // String, Class and Password
	List   []string
}

// Parse reads a value as the key's type and checks it. The text of an error is
// Kafka's, since clients show it to people who search for it.
func (k *Key) Parse(raw string) (Value, error) {
	v, err := k.parse(raw)
	if err != nil {
		return Value{}, err
	}
	if k.Valid != nil {
		if err := k.Valid.check(k.Name, v); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

func (k *Key) parse(raw string) (Value, error) {
	text := trim(raw)
	switch k.Type {
	case Boolean:
		switch {
		case strings.EqualFold(text, "true"):
			return Value{Bool: true}, nil
		case strings.EqualFold(text, "false"):
			return Value{}, nil
		}
		return Value{}, invalid(k.Name, raw, "Expected value to be either true or false")
	case Int, Short, Long:
		n, err := strconv.ParseInt(text, 10, k.Type.bits())
		if err != nil {
			return Value{}, invalid(k.Name, raw, "Not a number of type "+k.Type.String())
		}
		return Value{Int: n}, nil
	case Double:
		f, err := parseDouble(text)
		if err != nil {
			return Value{}, invalid(k.Name, raw, "Not a number of type "+k.Type.String())
		}
		return Value{Double: f}, nil
	case List:
		if text == "" {
			return Value{List: []string{}}, nil
		}
		items := strings.Split(text, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		return Value{List: items}, nil
	}
	return Value{Text: text}, nil
}

func (t Type) bits() int {
	switch t {
	case Short:
		return 16
	case Int:
		return 32
	}
	return 64
}

// Format gives a parsed value as text again: what DescribeConfigs answers for
// a value that came with blanks around it.
func (k *Key) Format(v Value) string {
	switch k.Type {
	case Boolean:
		return strconv.FormatBool(v.Bool)
	case Int, Short, Long:
		return strconv.FormatInt(v.Int, 10)
	case Double:
		return formatDouble(v.Double)
	case List:
		return strings.Join(v.List, ",")
	}
	return v.Text
}

// Normalize parses a value and formats it again. A value that does not parse
// comes back as it is; it was checked when it was set.
func (k *Key) Normalize(raw string) string {
	v, err := k.parse(raw)
	if err != nil {
		return raw
	}
	return k.Format(v)
}

// trim cuts what Java's String.trim cuts: everything up to the blank.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// parseDouble accepts what Java's Double.parseDouble accepts, where that
// differs from Go: a type suffix, and NaN and Infinity by exactly these names.
func parseDouble(s string) (float64, error) {
	bare := strings.TrimLeft(s, "+-")
	if strings.ContainsAny(bare, "_iI") && bare != "Infinity" || strings.EqualFold(bare, "nan") && bare != "NaN" {
		return 0, strconv.ErrSyntax
	}
	if bare == "NaN" {
		s = bare
	}
	hexadecimal := strings.HasPrefix(bare, "0x") || strings.HasPrefix(bare, "0X")
	if n := len(s); n > 1 && strings.ContainsRune("fFdD", rune(s[n-1])) && (!hexadecimal || strings.ContainsAny(s, "pP")) {
		s = s[:n-1]
	}
	return strconv.ParseFloat(s, 64)
}

// formatDouble writes a number as Java's Double.toString does: always with a
// fraction, and with an exponent below 0.001 and from ten million on.
func formatDouble(f float64) string {
	size := f
	if size < 0 {
		size = -size
	}
	if size != 0 && (size < 1e-3 || size >= 1e7) && size-size == 0 {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent)
		return mantissa + "E" + strconv.Itoa(n)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	switch {
	case text == "NaN":
		return text
	case strings.HasSuffix(text, "Inf"):
		return strings.Replace(strings.TrimPrefix(text, "+"), "Inf", "Infinity", 1)
	case !strings.Contains(text, "."):
		return text + ".0"
	}
	return text
}
