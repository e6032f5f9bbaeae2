package replica

import (
	"os/exec"
	"strings"
	"testing"
)

// A build whose high watermark is beyond the LEO must not pass.
func TestBrokenBuildIsCaught(t *testing.T) {
	if broken != "" {
		t.Skip("this is the broken build")
	}
	if testing.Short() {
		t.Skip("it builds the package again")
	}
	out, err := exec.Command("go", "test", "-tags", "broken_watermark", "-run", "^TestAppendAlone$", ".").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is beyond the LEO") {
		t.Errorf("the broken build passed, or failed otherwise:\n%s", out)
	}
}
