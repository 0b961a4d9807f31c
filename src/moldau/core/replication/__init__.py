"""One partition on several brokers as a step machine: leader, follower, in-sync replicas.

divergence: where two logs diverge
fetch_plan: decides a Fetch request
fetch_requests: the fetch session of a follower (KIP-227)
fetch_session: fetch sessions of a broker (KIP-227)
follower: fetches, appends, truncates
leader: offsets of followers, in-sync replicas, high watermark
partition: a partition on its broker: log and replica
produce_plan: decides a Produce request
replica: the machine
steps: events and outputs
throttles: replication throttles (KIP-73)
"""
