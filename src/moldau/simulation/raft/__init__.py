"""Runs a quorum from a seed, with crashes, lost power and disks, cut networks, changes of voters, and snapshots.

`python -m moldau.simulation.raft --seeds 1..300` runs it.

__main__: the command: one seed or many
clients: writers
faults: faults of hosts and splits
files: metadata log and snapshots of a node (KIP-630)
ledger: rules of a quorum
machine: a machine with nodes
membership: an operator who changes voters
messages: messages of clients
node: a process that drives `core.raft`
schedules: every order of events of a small quorum
story: the shared state of all hosts
world: machines, network, writers, final checks
"""
