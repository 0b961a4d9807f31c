"""The quorum of the metadata log as a step machine (KIP-595, 630, 853, 996).

election: votes and pre-votes (KIP-595, 996)
follower: fetches, appends, truncates (KIP-595, 630)
leader: offsets of replicas, commits, resignation (KIP-595)
membership: a node that joins or changes its address (KIP-853, 1186)
messages: messages between nodes, as values
own_log: ends, flushes and high watermark of this node's log
protocol: these messages as Kafka's requests and answers
quorum: the machine: role, epoch, leader
steps: events and outputs
voter_changes: one change of voters at a time (KIP-853)
voter_protocol: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter
voters: voter sets and majorities (KIP-853)
"""
