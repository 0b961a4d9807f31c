"""Code that waits and uses the operating system: the broker's files, threads and connections.

administration/: handlers of administrators' requests
broker/: the broker of a node
coordination/: the driver of log-backed machines
io/: disks, clocks, threads: real and simulated
network/: connections, frames, dispatch
node/: a node from start to stop
peers/: connections to other nodes
quorum/: the node's part of the metadata quorum
"""
