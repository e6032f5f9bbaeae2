// Package broker is a broker's life: it registers with the active controller,
// follows the metadata, has its replicas do what the metadata says, and stops in
// an orderly way.
//
// It owns the broker's state (STARTING, RECOVERY, RUNNING, …), its epoch, the
// heartbeats, and the image that the replicas have acted on. It leaves the
// replicas to broker/replica, the handlers to broker/api, the road to the
// controller to broker/controllerclient, and never talks to the controller
// other than through requests, also where both are one process.
//
//	b := broker.New(cfg, log)
//	go b.Run(ctx)        // register, catch up, load, lead and follow, unfence
//	<-b.Serving()        // now a client port may accept, serving b.APIs(…)
//
// A port that accepts means a broker that serves: Serving is closed when the
// broker's own image shows it unfenced and its replicas have acted on that
// image. Start takes no timer: every step begins when the one before it is
// done, and a heartbeat goes out at once when it has something to say.
//
// Goroutines: Run owns the heartbeats, the producer ids, the question how far the
// controller is, topic auto-creation and whatever Config.Background names, and
// returns after all of them. Publish is called by the metadata's goroutine, which
// waits for the replicas to act.
// Locks: Broker.mu, heart.mu, Applied.mu, ProducerIDs.mu and catchUp.mu are leaves.
//
// Stop is Run's context ending: the heartbeat asks for a controlled shutdown,
// the controller moves the leaderships and answers ShouldShutDown, Run returns.
// The controller must therefore still run when the broker of a combined node is
// stopped. What follows, closing the listeners, the logs and marking the clean
// shutdown, is up to the caller.
//
// Start reading at Run.
package broker
