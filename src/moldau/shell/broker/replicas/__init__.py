"""The replicas of the broker: fetching, in-sync replicas, throttles.

deadlines: sends due Ticks to replicas, with one timer
fetcher: one fetcher for each leader
follower_watch: partitions with news for a follower
isr_proposals: AlterPartition (KIP-497)
replication: drives the step machines of replicas
throttles: replication throttles (KIP-73)
"""
