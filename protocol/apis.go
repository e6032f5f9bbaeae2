package protocol

// ListenerKind says which side of a node a listener belongs to.
type ListenerKind int8

// The two kinds. A node with both roles has at least one listener of each.
const (
	BrokerListener ListenerKind = iota
	ControllerListener
)

// String returns the kind as configuration and logs name it.
func (k ListenerKind) String() string {
	if k == ControllerListener {
		return "controller"
	}
	return "broker"
}

// Keys of the APIs that the layers below the handlers treat specially.
const (
	KeyProduce     int16 = 0
	KeyAPIVersions int16 = 18
)

// APIInfo is what Kafka 4.4 says about one API.
type APIInfo struct {
	Key  int16
	Name string
	// Min and Max are the versions that are served, both inclusive.
	Min, Max int16
	// FlexibleFrom is the first version with tagged fields (KIP-482); −1 = none.
	FlexibleFrom int16
	// On says which listeners serve it.
	On Listeners
}

// Listeners is the set of listener kinds that serve an API.
type Listeners int8

const (
	brokers     = Listeners(1 << BrokerListener)
	controllers = Listeners(1 << ControllerListener)
	both        = brokers | controllers
)

// Has tells whether the kind is in the set.
func (l Listeners) Has(kind ListenerKind) bool { return l&(1<<kind) != 0 }

// IsFlexible tells whether a version of the API has tagged fields, in its
// headers too.
func (a APIInfo) IsFlexible(version int16) bool {
	return a.FlexibleFrom >= 0 && version >= a.FlexibleFrom
}

// ListedMin is the lowest version that ApiVersions lists. It is Min but for
// Produce, listed from 0 for the sake of old librdkafka, which otherwise takes
// the broker for too old (KIP-896). A request below Min is refused all the same.
func (a APIInfo) ListedMin() int16 {
	if a.Key == KeyProduce {
		return 0
	}
	return a.Min
}

// IsListed tells whether ApiVersions lists the API. Telemetry is answered but
// not listed while no receiver of telemetry is configured.
func (a APIInfo) IsListed() bool { return a.Key != 71 && a.Key != 72 }

// API returns what is known about a key. Keys that went with ZooKeeper (4 to
// 7) are unknown, as all that Kafka 4.4 does not have.
func API(key int16) (APIInfo, bool) {
	if key < 0 || int(key) >= len(apisByKey) || apisByKey[key] == nil {
		return APIInfo{}, false
	}
	return *apisByKey[key], true
}

// APIs returns all of them, by key. The slice is the caller's.
func APIs() []APIInfo { return append([]APIInfo(nil), apis...) }

// apisByKey has the entry of apis at its key.
var apisByKey = func() []*APIInfo {
	byKey := make([]*APIInfo, apis[len(apis)-1].Key+1)
	for i := range apis {
		byKey[apis[i].Key] = &apis[i]
	}
	return byKey
}()

// apis is sorted by key: key, name, min, max, flexible from, listeners.
var apis = []APIInfo{
	{0, "Produce", 3, 13, 9, brokers},
	{1, "Fetch", 4, 18, 12, both},
	{2, "ListOffsets", 1, 11, 6, brokers},
	{3, "Metadata", 0, 13, 9, brokers},
	{8, "OffsetCommit", 2, 10, 8, brokers},
	{9, "OffsetFetch", 1, 10, 6, brokers},
	{10, "FindCoordinator", 0, 6, 3, brokers},
	{11, "JoinGroup", 0, 9, 6, brokers},
	{12, "Heartbeat", 0, 4, 4, brokers},
	{13, "LeaveGroup", 0, 5, 4, brokers},
	{14, "SyncGroup", 0, 5, 4, brokers},
	{15, "DescribeGroups", 0, 6, 5, brokers},
	{16, "ListGroups", 0, 5, 3, brokers},
	{17, "SaslHandshake", 0, 1, -1, both},
	{18, "ApiVersions", 0, 5, 3, both},
	{19, "CreateTopics", 2, 7, 5, both},
	{20, "DeleteTopics", 1, 6, 4, both},
	{21, "DeleteRecords", 0, 2, 2, brokers},
	{22, "InitProducerId", 0, 5, 2, brokers},
	{23, "OffsetForLeaderEpoch", 2, 4, 4, brokers},
	{24, "AddPartitionsToTxn", 0, 5, 3, brokers},
	{25, "AddOffsetsToTxn", 0, 4, 3, brokers},
	{26, "EndTxn", 0, 5, 3, brokers},
	{27, "WriteTxnMarkers", 1, 2, 1, brokers},
	{28, "TxnOffsetCommit", 0, 6, 3, brokers},
	{29, "DescribeAcls", 1, 3, 2, both},
	{30, "CreateAcls", 1, 3, 2, both},
	{31, "DeleteAcls", 1, 3, 2, both},
	{32, "DescribeConfigs", 1, 4, 4, both},
	{33, "AlterConfigs", 0, 2, 2, both},
	{34, "AlterReplicaLogDirs", 1, 2, 2, brokers},
	{35, "DescribeLogDirs", 1, 5, 2, brokers},
	{36, "SaslAuthenticate", 0, 2, 2, both},
	{37, "CreatePartitions", 0, 3, 2, both},
	{38, "CreateDelegationToken", 1, 3, 2, both},
	{39, "RenewDelegationToken", 1, 2, 2, both},
	{40, "ExpireDelegationToken", 1, 2, 2, both},
	{41, "DescribeDelegationToken", 1, 3, 2, both},
	{42, "DeleteGroups", 0, 3, 2, brokers},
	{43, "ElectLeaders", 0, 2, 2, both},
	{44, "IncrementalAlterConfigs", 0, 1, 1, both},
	{45, "AlterPartitionReassignments", 0, 1, 0, both},
	{46, "ListPartitionReassignments", 0, 0, 0, both},
	{47, "OffsetDelete", 0, 0, -1, brokers},
	{48, "DescribeClientQuotas", 0, 1, 1, brokers},
	{49, "AlterClientQuotas", 0, 1, 1, both},
	{50, "DescribeUserScramCredentials", 0, 0, 0, both},
	{51, "AlterUserScramCredentials", 0, 0, 0, both},
	{52, "Vote", 0, 2, 0, controllers},
	{53, "BeginQuorumEpoch", 0, 1, 1, controllers},
	{54, "EndQuorumEpoch", 0, 1, 1, controllers},
	{55, "DescribeQuorum", 0, 2, 0, both},
	{56, "AlterPartition", 2, 3, 0, controllers},
	{57, "UpdateFeatures", 0, 2, 0, both},
	{58, "Envelope", 0, 0, 0, controllers},
	{59, "FetchSnapshot", 0, 1, 0, controllers},
	{60, "DescribeCluster", 0, 2, 0, both},
	{61, "DescribeProducers", 0, 0, 0, brokers},
	{62, "BrokerRegistration", 0, 4, 0, controllers},
	{63, "BrokerHeartbeat", 0, 2, 0, controllers},
	{64, "UnregisterBroker", 0, 0, 0, both},
	{65, "DescribeTransactions", 0, 0, 0, brokers},
	{66, "ListTransactions", 0, 2, 0, brokers},
	{67, "AllocateProducerIds", 0, 0, 0, controllers},
	{68, "ConsumerGroupHeartbeat", 0, 1, 0, brokers},
	{69, "ConsumerGroupDescribe", 0, 1, 0, brokers},
	{70, "ControllerRegistration", 0, 0, 0, controllers},
	{71, "GetTelemetrySubscriptions", 0, 0, 0, brokers},
	{72, "PushTelemetry", 0, 0, 0, brokers},
	{73, "AssignReplicasToDirs", 0, 0, 0, controllers},
	{74, "ListConfigResources", 0, 1, 0, brokers},
	{75, "DescribeTopicPartitions", 0, 0, 0, brokers},
	{76, "ShareGroupHeartbeat", 1, 1, 0, brokers},
	{77, "ShareGroupDescribe", 1, 1, 0, brokers},
	{78, "ShareFetch", 1, 2, 0, brokers},
	{79, "ShareAcknowledge", 1, 2, 0, brokers},
	{80, "AddRaftVoter", 0, 1, 0, both},
	{81, "RemoveRaftVoter", 0, 0, 0, both},
	{82, "UpdateRaftVoter", 0, 0, 0, controllers},
	{83, "InitializeShareGroupState", 0, 0, 0, brokers},
	{84, "ReadShareGroupState", 0, 0, 0, brokers},
	{85, "WriteShareGroupState", 0, 1, 0, brokers},
	{86, "DeleteShareGroupState", 0, 0, 0, brokers},
	{87, "ReadShareGroupStateSummary", 0, 1, 0, brokers},
	{88, "StreamsGroupHeartbeat", 0, 1, 0, brokers},
	{89, "StreamsGroupDescribe", 0, 1, 0, brokers},
	{90, "DescribeShareGroupOffsets", 0, 1, 0, brokers},
	{91, "AlterShareGroupOffsets", 0, 0, 0, brokers},
	{92, "DeleteShareGroupOffsets", 0, 0, 0, brokers},
	{93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0, brokers},
	{94, "UnregisterController", 0, 0, 0, both},
}
