"""One partition on two or three machines, from a seed: crashes, losses of power, a network that cuts and delays.

`world` puts it together; `broker` drives `core.replication` over a real log; `controller` chooses leaders; `faults`
makes the trouble; `ledger` knows what must hold. `python -m moldau.simulation.replication --seeds 1..300` runs it.
`schedules` follows every schedule of a small partition instead.
"""
