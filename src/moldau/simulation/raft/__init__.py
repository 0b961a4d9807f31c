"""A quorum of three or five voters, from a seed: crashes, losses of power, a network that cuts and delays.

`world` puts it together; `node` drives `core.raft` over a real log; `faults` makes the trouble; `ledger` knows what
must hold. `python -m moldau.simulation.raft --seeds 1..300` runs it.
"""
