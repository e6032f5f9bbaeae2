//go:build broken_truncate

package replica

// broken: who becomes a follower cuts its log to its high watermark.
const broken = brokenTruncate
