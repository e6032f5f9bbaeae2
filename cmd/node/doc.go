// Package node is one klamm process: a controller, a broker, or both, from a
// config.
//
// It is the only place where controller and broker meet, and they meet in the
// metadata log: the controller proposes batches, the replayer turns what is
// committed into images, the broker acts on them. Registration and heartbeats
// go over the controller listener inside one process too.
//
//	err := node.Run(ctx, cfg, version, log)
//
// Run returns after everything that it started has ended. The order of a stop is
// the reverse of the start: the broker asks the controller to be let go, client
// connections end, logs and directories are closed with the mark of a clean stop,
// then the controller and its Raft end, and the metadata log last.
//
// Start reading at Run.
package node
