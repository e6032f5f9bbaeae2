package main

import (
	"crypto/rand"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm/klamm/auth/scram"
	"github.com/klamm/klamm/metadata/record"
)

// parseScram reads one --add-scram, in the words of Kafka's tool:
//
//	SCRAM-SHA-256=[name=alice,password=secret]
//	SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
//
// Salt and salted password are in base64. A value may stand in quotes.
func parseScram(text string) (*record.UserScramCredential, error) {
	name, body, ok := strings.Cut(text, "=")
	if !ok {
		return nil, usagef("Failed to find equals sign in SCRAM argument '%s'", text)
	}
	mechanism, ok := map[string]scram.Mechanism{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[name]
	if !ok {
		return nil, usagef("The add-scram mechanism %s is not supported.", name)
	}
	fields, err := scramFields(body)
	if err != nil {
		return nil, err
	}
	c := &record.UserScramCredential{Mechanism: int8(mechanism), Name: fields["name"], Iterations: scram.MinIterations}
	if c.Name == "" {
		return nil, usagef("You must supply 'name' to add-scram")
	}
	if text, ok := fields["iterations"]; ok {
		n, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil:
			return nil, usagef("Failed to parse iterations count: %s", text)
		case n < scram.MinIterations:
			return nil, usagef("The 'iterations' value must be >= %d for add-scram using %s", scram.MinIterations, name)
		case n > scram.MaxIterations:
			return nil, usagef("The 'iterations' value must be <= %d for add-scram using %s", scram.MaxIterations, name)
		}
		c.Iterations = int32(n)
	}
	if text, ok := fields["salt"]; ok {
		if c.Salt, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, usagef("Failed to decode given salt: %s", text)
		}
	} else {
		c.Salt = make([]byte, 24)
		_, _ = rand.Read(c.Salt) // never fails (crypto/rand)
	}
	salted, err := saltedPassword(mechanism, fields, c)
	if err != nil {
		return nil, err
	}
	c.StoredKey, c.ServerKey = mechanism.Keys(salted)
	return c, nil
}

func saltedPassword(mechanism scram.Mechanism, fields map[string]string, c *record.UserScramCredential) ([]byte, error) {
	password, hasPassword := fields["password"]
	given, hasSalted := fields["saltedpassword"]
	_, hasSalt := fields["salt"]
	switch {
	case hasPassword == hasSalted || hasPassword && password == "":
		return nil, usagef("You must supply one of 'password' or 'saltedpassword' to add-scram")
	case hasPassword:
		return mechanism.SaltedPassword(password, c.Salt, int(c.Iterations))
	case !hasSalt:
		return nil, usagef("You must supply 'salt' with 'saltedpassword' to add-scram")
	}
	salted, err := base64.StdEncoding.DecodeString(given)
	if err != nil || len(salted) == 0 {
		return nil, usagef("Failed to decode given saltedpassword: it is no base64")
	}
	return salted, nil
}

// scramFields reads [key=value,...].
func scramFields(text string) (map[string]string, error) {
	text, ok := strings.CutPrefix(text, "[")
	if !ok {
		return nil, usagef("Expected configuration string to start with [")
	}
	text, ok = strings.CutSuffix(text, "]")
	if !ok {
		return nil, usagef("Expected configuration string to end with ]")
	}
	fields := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, usagef("No equals sign found in a SCRAM component; valid is key=value, separated by commas")
		}
		if unquoted, ok := strings.CutPrefix(value, `"`); ok {
			if value, ok = strings.CutSuffix(unquoted, `"`); !ok {
				return nil, usagef("The quote that opens '%s' is not closed; a value cannot hold a comma", key)
			}
		}
		fields[key] = value
	}
	known := []string{"iterations", "name", "password", "salt", "saltedpassword"}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			return nil, usagef("Unknown SCRAM configurations: %s; valid are %s", key, strings.Join(known, ", "))
		}
	}
	return fields, nil
}
