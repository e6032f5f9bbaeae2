package broker

// State is where a broker is in its life. The numbers are Kafka's, as its
// broker-state metric and its logs show them; 4 and 5 have no meaning any more.
type State int32

// The states in the order they are gone through.
const (
	// NotRunning is before Run.
	NotRunning State = 0
	// Starting: registering, and catching up with the metadata.
	Starting State = 1
	// Recovery: loading logs, becoming leader and follower, waiting to be unfenced.
	Recovery State = 2
	// Running: unfenced and serving.
	Running State = 3
	// PendingControlledShutdown: the controller moves leaderships away.
	PendingControlledShutdown State = 6
	// ShuttingDown is the end.
	ShuttingDown State = 7
)

// String returns Kafka's name of the state.
func (s State) String() string {
	switch s {
	case NotRunning:
		return "NOT_RUNNING"
	case Starting:
		return "STARTING"
	case Recovery:
		return "RECOVERY"
	case Running:
		return "RUNNING"
	case PendingControlledShutdown:
		return "PENDING_CONTROLLED_SHUTDOWN"
	case ShuttingDown:
		return "SHUTTING_DOWN"
	}
	return "UNKNOWN"
}
