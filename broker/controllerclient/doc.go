// Package controllerclient is a broker's road to the active controller.
//
// It finds the controller, keeps connections to it and sends a request again
// until it has the controller's own answer or the caller's deadline has passed.
// A node that turns out not to lead, a connection that breaks and a leader that
// changes while a request is under way all lead to another attempt, as in
// Kafka's NodeToControllerChannelManager. The outcome of an attempt that broke
// is unknown: a topic may then be found to exist by the second attempt.
//
//	c := controllerclient.New(cfg, log)
//	resp, err := c.Do(ctx, kmsg.NewPtrBrokerHeartbeatRequest())
//	resp, err = c.Forward(ctx, controllerclient.Wrap(req, origin))
//	c.Close()
//
// Requests are real requests over the controller's listener also where broker
// and controller are one process, so that both kinds of cluster run the same
// code. Finding the controller costs nothing when Config.Leader knows it: a
// start waits for the leader's election and not for a timer.
//
// The broker's lifecycle has a Client of its own. The controller takes the end
// of a heartbeat's connection for evidence that the broker died, and a large
// request of somebody else must not delay a heartbeat.
//
// A Client may be used by many goroutines. A connection carries one request at a
// time; the mutex guards the list of idle ones only and is never held over I/O.
// Do starts one goroutine, which watches the leader and ends before Do returns.
//
// Start reading at Do.
package controllerclient
