package api

// What a client may do, as DescribeCluster, Metadata and DescribeGroups report
// it: a set bit per code of AclOperation. Without an authorizer everything that
// makes sense for the kind of resource is allowed.
const (
	// OperationsNotAsked is the answer where the client did not ask.
	OperationsNotAsked int32 = -1 << 31

	// ClusterOperations are create (5), alter (7), describe (8), cluster action
	// (9), describe configs (10), alter configs (11) and idempotent write (12).
	ClusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12

	// TopicOperations are read (3), write (4), create (5), delete (6), alter (7),
	// describe (8), describe configs (10) and alter configs (11).
	TopicOperations int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11

	// GroupOperations are read (3), delete (6), describe (8), describe configs
	// (10) and alter configs (11).
	GroupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
)
