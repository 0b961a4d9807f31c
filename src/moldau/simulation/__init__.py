"""A broker, its disk, its network and its clients in one deterministic process: `python -m moldau.simulation --seed 7`.

    loop       an asyncio loop whose clock is a number; a killed process is dropped through its context
    network    hosts and ports: the same protocol classes as on sockets, bytes cut and delayed, resets, cut links
    ports      clock, disk, workers and random of one process; it may die inside any change of its disk
    machine    a host: boots, kills and stops real Nodes on disks that outlive them
    world      the machines of a seed, and the rules over them
    scenario   from a seed to topics, clients, troubles, and an end in which everything is read back
    troubles   what goes wrong, each trouble by a timetable of its own
    workloads  producers, readers, group members, a topic owner: small clients in every served version
    late_end_txn  one small scenario alone, thousands of seeds of it
    checkers   what was promised (ledger, group_ledger), and what the disk holds, read by other code (survivors)

Randomness comes from `random_of(seed, name)`: each trouble, client, host and setting has a stream of its own; nothing
iterates a set, reads a clock or depends on an address. A seed gives the same trace on every run; CI compares two hash
seeds. Each rule is the text of a ViolationError.
"""

from moldau.extras import require_extra

require_extra("moldau.simulation", "simulation")
