"""Runs one partition on two or three machines from a seed, with crashes, losses of power, and cut and slow networks.

`python -m moldau.simulation.replication --seeds 1..300` runs it.

__main__: the command: one seed or many
broker: a process that drives `core.replication`
clients: producers and readers
controller: a controller that never fails
faults: faults of hosts, brokers and controller
ledger: rules of replicas
machine: a machine with brokers
messages: messages between hosts
schedules: every order of events of a small partition
story: the shared state of all hosts
world: machines, controller, clients, final checks
"""
