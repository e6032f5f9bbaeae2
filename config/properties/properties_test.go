package properties

import (
	"strconv"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"separators", "a=1\nb: 2\nc 3\nd = 4\ne\t:\t5\nf\n", "1:a=1 2:b=2 3:c=3 4:d=4 5:e=5 6:f="},
		{"only the first separator counts", "a==1\nb=:2\nc = = 3\nd x=4", "1:a==1 2:b=:2 3:c== 3 4:d=x=4"},
		{"comments and blank lines", "# a=1\n  ! b=2\n\n\t\na=3#x", "5:a=3#x"},
		{"a comment does not go on", "# a \\\nb=1", "2:b=1"},
		{"continuation", "a=1,\\\n   2,\\\n\t3\nb=4", "1:a=1,2,3 4:b=4"},
		{"a blank line ends a continuation", "a=1\\\n\nb=2", "1:a=1 3:b=2"},
		{"a continued line is no comment", "a=1\\\n# 2", "1:a=1# 2"},
		{"two backslashes are one", "a=1\\\\\nb=2", `1:a=1\ 2:b=2`},
		{"backslash at the end of the file", "a=1\\", "1:a=1"},
		{"escapes", `a\ b\=c=\t\u00e9\q\\`, "1:a b=c=\té" + `q\`},
		{"line ends", "a=1\rb=2\r\nc=3", "1:a=1 2:b=2 3:c=3"},
		{"trailing blanks stay", "a=1 ", "1:a=1 "},
		{"repetition is kept", "a=1\na=2", "1:a=1 2:a=2"},
		{"empty key", "=1", "1:=1"},
		{"nothing", "", ""},
		{"an escaped end", "a\\", "1:a="},
		{"bad unicode", `a=\u12x4`, `error: line 1: \u12x4 is not a character: \u needs four hexadecimal digits`},
		{"short unicode", "b=1\n" + `a=\u12`, `error: line 2: "\\u12" is cut off: \u needs four hexadecimal digits`},
		{"not text", "a=\xff", "error: not UTF-8 text"},
	}
	for _, test := range tests {
		properties, err := Parse(strings.NewReader(test.text))
		var got string
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = show(properties)
		}
		if got != test.want {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.want)
		}
	}
}

func show(properties []Property) string {
	var b strings.Builder
	for i, p := range properties {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(p.Line) + ":" + p.Key + "=" + p.Value)
	}
	return b.String()
}

// FuzzParse: whatever the bytes, an answer without a panic, lines
// that only grow, and what was read is read again when it is written escaped.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a=1\nb: 2\\\n 3\n# c\n", `k\=\u00e9=v\t`, "\\", "a\\\r\n\\\nb", "=:=\f=", "!\x00=\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		properties, err := Parse(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		line := 0
		var written strings.Builder
		for _, p := range properties {
			if p.Line <= line {
				t.Fatalf("line %d after line %d", p.Line, line)
			}
			line = p.Line
			written.WriteString(escape(p.Key) + "=" + escape(p.Value) + "\n")
		}
		again, err := Parse(strings.NewReader(written.String()))
		if err != nil || len(again) != len(properties) {
			t.Fatalf("%q read again: %d properties instead of %d, %v", written.String(), len(again), len(properties), err)
		}
		for i := range again {
			if again[i].Key != properties[i].Key || again[i].Value != properties[i].Value {
				t.Fatalf("%+v read again: %+v", properties[i], again[i])
			}
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, "=", `\=`, ":", `\:`, " ", `\ `, "#", `\#`, "!", `\!`).Replace(s)
}
