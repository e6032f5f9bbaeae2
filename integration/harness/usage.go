//go:build integration

package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used since its start, and the memory that it has.
type Usage struct {
	CPU       time.Duration // user and system
	RSS, Peak int64         // bytes
}

// userHz is the unit of the times in /proc/PID/stat.
const userHz = 10 * time.Millisecond

// Usage is what the node's process uses.
func (n *Node) Usage() Usage {
	n.t.Helper()
	pid := n.cmd.Process.Pid
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		n.t.Fatal(err)
	}
	var u Usage
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may hold blanks
	for _, i := range []int{11, 12} {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		u.CPU += time.Duration(ticks) * userHz
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		for field, to := range map[string]*int64{"VmRSS:": &u.RSS, "VmHWM:": &u.Peak} {
			if rest, ok := strings.CutPrefix(line, field); ok {
				kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					n.t.Fatal(err)
				}
				*to = kib << 10
			}
		}
	}
	return u
}
