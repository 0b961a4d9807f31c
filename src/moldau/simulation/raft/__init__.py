"""A quorum of three or five voters, or of as many as are asked for, from a seed: crashes, losses of power and of disks,
a network that cuts and delays, voters that change, snapshots.

`world` puts it together; `node` drives `core.raft` over a real log; `faults` and `membership` make the trouble;
`ledger` knows what must hold. `python -m moldau.simulation.raft --seeds 1..300` runs it. `schedules` follows every
schedule of a small quorum instead.
"""
