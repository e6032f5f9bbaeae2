//go:build integration

package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Need finds a program that a test can not do without.
func Need(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed, and this test shows what it does with klamm: %s", name, install)
	}
	return path
}

// KafkaTools is the launcher of Apache Kafka's tools.
func KafkaTools(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KLAMM_KAFKA_TOOLS"); path != "" {
		return path
	}
	Need(t, "java", "apt-get install default-jre-headless")
	return filepath.Join(root(t), "integration", "kafkatools", "kafka")
}

// Build is a klamm of this checkout that is built with tags.
func Build(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "klamm")
	cmd := exec.Command("go", "build", "-tags", tags, "-o", path, "./cmd/klamm")
	cmd.Dir, cmd.Env = root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build with %s: %v\n%s", tags, err, out)
	}
	return path
}

// root is the directory of the checkout.
func root(t *testing.T) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the place of the sources is unknown")
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}
