"""A broker, its disk, its network and its clients in one deterministic process: `python -m moldau.simulation --seed 7`.

    loop       an asyncio loop whose clock is a number; a killed process is dropped through its context
    network    the transports: the same protocol classes as on sockets, bytes cut and delayed, resets, silence
    doors      clock, disk, workers and random of one process; it may die inside any change of its disk
    world      one machine: boots, kills and stops real Nodes on a disk that outlives them
    scenario   from a seed to topics, clients, troubles, and an end in which everything is read back
    workloads  producers, readers, group members, a topic owner: small clients in every served version
    checkers   what was promised (ledger, group_ledger), and what the disk holds, read by other code (survivors)

Randomness comes from `Random(f"{seed}/{purpose}")`; nothing iterates a set, reads a clock or depends on an address. A
seed gives the same trace on every run; CI compares two hash seeds. Each rule is the text of a ViolationError.
"""
