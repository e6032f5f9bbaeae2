// Package fetcher pulls the records of partitions that follow from their
// leaders, with Kafka's own Fetch.
//
// It owns connections to other brokers, fetch sessions (KIP-227) and the pauses
// after failures. Where a replica stands and what an answer does to its log is
// the business of broker/replica, which tells the pool who follows whom:
//
//	pool := fetcher.New(cfg, log)
//	manager := replica.NewManager(replica.Config{Puller: pool, …}, log)
//	pool.Close()
//
// A fetcher pulls from one broker, for a share of the partitions that it leads
// (num.replica.fetchers). It asks from where each replica stands; the leader
// answers with records, with the epoch and offset where the two logs part
// (KIP-595), or with an error, after which the partition rests for a while. An
// answer that comes after the replica has moved on, to another leader epoch or
// another role, is refused there.
//
// A partition that a replication throttle holds is not asked for until it may go on;
// the others are meanwhile.
//
// Before a fetch those partitions are looked at whose position may be another than the
// leader was told: new ones, those that the last answer was about, those whose rest is
// over. All are looked at twice a minute.
//
// Goroutines: one per fetcher, started by Update, ended when its last partition
// has left, or by Close, which waits for all. Pool.mu guards who is where,
// fetcher.mu its partitions; the first is taken before the second, and neither is
// held over I/O.
//
// Start reading at fetcher.run, then answer.go.
package fetcher
