package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestLimitRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		lines := func(part string) int { return strings.Count(out.String(), part) }
		log := LimitRepeats(zerolog.New(&out)).With().Str("component", "server").Logger()
		child := log.With().Int("connection", 1).Logger()
		for range 100 {
			log.Warn().Msg("bad request")
			child.Warn().Msg("bad request")
			log.Info().Msg("topic created")
		}
		log.Error().Msg("disk full")
		if n := lines("bad request"); n != maxRepeats {
			t.Errorf("%d lines of 200", n)
		}
		if lines("topic created") != 100 || lines("disk full") != 1 || lines("suppressed") != 0 {
			t.Errorf("others are limited too:\n%s", &out)
		}
		time.Sleep(repeatPeriod)
		out.Reset()
		child.Warn().Msg("bad request")
		child.Warn().Msg("bad request")
		if want := `"suppressed":190,"message":"bad request"}`; lines(want) != 1 || lines("suppressed") != 1 || lines("bad request") != 2 {
			t.Errorf("after a period:\n%s", &out)
		}
	})
}
