"""Classic groups: joining, rebalances, sessions.

group: one group: members, generation, state
join: JoinGroup
membership: Heartbeat, LeaveGroup and expired sessions
memory: memory of members, and its bound
rebalance: the start of a generation
sync: SyncGroup
"""
