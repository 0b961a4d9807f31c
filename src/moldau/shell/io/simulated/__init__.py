"""Simulated implementations of the ports.

clock: a clock that a test moves
full_disk: a disk that a test can fill
memory_disk: a disk in memory, with faults
random: randomness from a seed
time_travel: a real event loop whose clock can jump ahead
workers: workers without threads
"""
