// Package properties reads the syntax of Java's Properties, in which Kafka
// writes server.properties and meta.properties.
package properties

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Property is one key and value of a file in the syntax of Java's Properties.
type Property struct {
	Key, Value string
	Line       int // where it begins, from 1
}

// maxSize bounds what is read: a real file has some kilobytes, and a
// log segment given by mistake should not be read into memory first.
const maxSize = 4 << 20

// Parse reads the syntax of java.util.Properties, in the file's
// order, repetitions included:
//
//	# comment            also with !
//	key=value            also "key: value" and "key value"
//	key = long \         a line that ends in an odd number of backslashes goes
//	      value          on in the next one, whose leading blanks are dropped
//	k\=e\ y=\u00e9\t     escapes: \t \n \r \f, \uXXXX; before anything else
//	                     the backslash is dropped
//
// Java reads Latin-1 where given bytes; Kafka's files are ASCII in practice.
// We read UTF-8 and refuse what is not.
func Parse(r io.Reader) ([]Property, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("more than %d bytes: not a properties file", maxSize)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8 text")
	}
	var properties []Property
	lines := logicalLines{rest: string(data)}
	for {
		text, line, ok := lines.next()
		if !ok {
			return properties, nil
		}
		rawKey, rawValue := split(text)
		key, err := unescape(rawKey)
		if err == nil {
			var value string
			if value, err = unescape(rawValue); err == nil {
				properties = append(properties, Property{Key: key, Value: value, Line: line})
				continue
			}
		}
		return nil, fmt.Errorf("line %d: %w", line, err)
	}
}

// logicalLines joins continued lines and leaves out blanks and comments.
type logicalLines struct {
	rest string
	line int // lines read so far
}

const blanks = " \t\f"

// next gives the next logical line without leading blanks, and the number of
// its first line.
func (l *logicalLines) next() (text string, line int, ok bool) {
	for l.rest != "" {
		text = strings.TrimLeft(l.physical(), blanks)
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		line = l.line
		if !continues(text) {
			return text, line, true
		}
		// A builder, since a file may be one long continuation.
		var joined strings.Builder
		for continues(text) {
			joined.WriteString(text[:len(text)-1])
			if text = ""; l.rest != "" {
				text = strings.TrimLeft(l.physical(), blanks)
			}
		}
		joined.WriteString(text)
		return joined.String(), line, true
	}
	return "", 0, false
}

// physical takes one line off the rest: up to \n, \r or \r\n.
func (l *logicalLines) physical() string {
	l.line++
	end := strings.IndexAny(l.rest, "\r\n")
	if end < 0 {
		text := l.rest
		l.rest = ""
		return text
	}
	text := l.rest[:end]
	if strings.HasPrefix(l.rest[end:], "\r\n") {
		end++
	}
	l.rest = l.rest[end+1:]
	return text
}

// continues reports whether a line ends in an odd number of backslashes.
func continues(text string) bool {
	n := len(text) - len(strings.TrimRight(text, `\`))
	return n%2 == 1
}

// split cuts at the first =, : or blank that no backslash precedes. Of
// blanks around one = or : all are dropped.
func split(text string) (key, value string) {
	end := len(text)
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=:"+blanks, text[i]) >= 0 {
			end = i
			break
		}
	}
	key = text[:end]
	value = strings.TrimLeft(text[end:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return key, value
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if len(s) < i+5 {
				return "", fmt.Errorf(`%q is cut off: \u needs four hexadecimal digits`, s[i-1:])
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf(`\u%s is not a character: \u needs four hexadecimal digits`, s[i+1:i+5])
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}
