"""Rules that a seed must not break.

copy_ledger: transactional copies: each number once, in order
epoch_ledger: leader epochs and their ends
group_ledger: committed offsets and owners of partitions
ledger: acknowledged records
survivors: reads the disk after a crash with other code
"""
