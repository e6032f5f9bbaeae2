package metadata

// Counts is how much there is of what operators watch.
type Counts struct {
	Active, Fenced     int // brokers
	Topics, Partitions int
	Offline            int // partitions that nobody leads
	Imbalanced         int // partitions that another than their first replica leads, or nobody
}

// Count looks at every broker and partition.
func (img *Image) Count() Counts {
	c := Counts{Topics: img.NumTopics()}
	for b := range img.Brokers() {
		if b.Fenced {
			c.Fenced++
		} else {
			c.Active++
		}
	}
	for t := range img.Topics() {
		for p := range t.Partitions() {
			c.Partitions++
			if p.Leader < 0 {
				c.Offline++
			}
			if len(p.Replicas) > 0 && p.Leader != p.Replicas[0] {
				c.Imbalanced++
			}
		}
	}
	return c
}
