"""Drives log-backed machines (`core/coordination`).

partition_log: a partition of an internal topic as a machine's log
runtime: one driver: load, decide, append, commit, timers, failures
"""
