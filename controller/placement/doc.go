// Package placement says which brokers get the replicas of new partitions.
//
// It is a pure function of the brokers, the counts and a random source:
//
//	assignments, err := placement.Place(brokers, partitions, replicas, rng)
//
// The result is even in two ways. Racks are taken in turn, each partition
// starting one rack further than the one before, so that replicas of a partition
// lie in as many racks as there are; inside a rack the brokers are taken in turn
// as well. The starts are random, so that many topics of one partition do not
// all land on the same broker. A partition's first replica, its preferred
// leader, is always on a broker that lives; the others are on fenced brokers
// only where the rack has no living one left.
//
// The rules are those of Kafka's StripedReplicaPlacer, its error texts as well,
// because they reach clients. One thing differs: where the number of racks and
// the brokers per rack share a factor, Kafka lets some brokers lead several
// partitions before others lead any; here every broker of equal racks leads once
// before one leads twice. Racks should be of similar size: one broker alone in a
// rack gets as much as all of another rack together.
//
// Which partitions go into which log directory of a broker, and moving what has
// been placed, is not decided here.
package placement
