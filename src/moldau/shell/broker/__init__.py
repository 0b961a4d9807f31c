"""The broker of a node: logs, replicas, coordinators and the handlers of requests.

`role` builds and connects the parts, which do not import it. Read it first, then `own_node`, `partitions`, `logs`,
`replicas`, `coordination` and `handlers`.

cluster/: the broker among other nodes: registration, heartbeats, reports
coordination/: coordinators of groups and transactions
dynamic_settings: the settings in force (KIP-226)
fetches: what all fetches share: sessions, turns, the bound on those that wait
fetch_turns: bytes that fetches read in one turn of the loop
handlers/: one handler for each API
logs/: flushes, cleaning, checkpoints, moves
own_node: the ports and settings that each part gets
partitions: the partitions of this broker
quotas: quotas in force
replicas/: followers, in-sync replicas, throttles
role: the parts of the broker, and their events
streamed_batch: a large batch, read while its consumer takes it
traffic: bytes and records of partitions, for metrics
waits: parked fetches and appends with acks=all
"""
