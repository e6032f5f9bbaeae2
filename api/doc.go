// Package api holds the handlers that a broker's and a controller's listeners
// serve alike: ApiVersions, DescribeCluster, DescribeAcls and DescribeConfigs, and the loggers
// of a node, which requests to either set.
//
// It owns the rules of these answers and takes what differs between the two
// kinds of listener from an Env: which image to look at, who the controller is,
// which offset stands for the features' epoch. It keeps no state, starts no
// goroutine and takes no lock; an answer is a plain function of a request, an
// image and an Env.
//
//	env := api.Env{Kind: protocol.BrokerListener, ClusterID: id, NodeID: 1, Image: replay.Image}
//	apis = append(apis, api.ApiVersions(env), api.DescribeCluster(env))
//
// ApiVersions advertises what is served, not what Kafka 4.4 has: a client never
// learns of an API that would close its connection. The answer to a version of
// ApiVersions that does not exist is given by protocol/server, which is where
// such a request ends.
//
// Start reading at api_versions.go.
package api
