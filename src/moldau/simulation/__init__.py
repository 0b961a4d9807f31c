"""Runs a broker, its disk, its network and its clients in one process, from a seed: `python -m moldau.simulation --seed
7`.

All randomness comes from `random_of(seed, name)`: each fault, client, host and setting has its own stream. No code
iterates over a set, reads a clock or depends on an address. So a seed gives the same trace in every run; CI compares
two hash seeds. Each rule is the text of a ViolationError.

__main__: the command: one seed or many
audits: clients that look once
calls: requests between hosts, late, lost or reordered
checkers/: rules
client: the simulator's client with time limits
client_world: the view of clients, in any world
cluster/: several whole nodes
damaged_machine: a machine with damaged disks after a story
exploring: visits every state of a small world
flipped_bits: flips one bit and starts a node
flipped_reading: reads of clients after a flipped bit
host_faults: deaths, cut links and pauses of hosts
host_network: the network of one host
host_story: a world of hosts that call each other
kinds: kinds of load and faults, and random streams
late_end_txn: an EndTxn that arrives late
links: links between two hosts
loop: an event loop in virtual time
machine: disks and clock that outlive processes
network: simulated connections with real protocol classes
node_machine: a machine with real nodes
ports: clock and disk of one simulated process
raft/: the quorum alone
receive_buffers: reuses receive buffers, to find late readers
replication/: the replicas of a partition alone
run: one seed
scenario: topics, clients and faults of a seed
seeds: shared by the commands of simulators
surroundings: seed, time, network and trace of a world
trace: the events of a seed, and their hash
transaction_events: counted events of transactions
troubles: one method for each fault
used_up_epochs: producer ids with few epochs left
violation: the error of a broken rule
workers: threads in virtual time
workloads/: clients
world: machines, network, clients, rules
"""

from moldau.extras import require_extra

require_extra("moldau.simulation", "simulation")
