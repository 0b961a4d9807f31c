"""Requests on the controller's listener.

api_versions: ApiVersions
brokers: requests of brokers for themselves (KIP-497, 631, 730, 858, 919)
cluster: DescribeCluster and DescribeQuorum
envelopes: Envelope: forwarded requests of clients (KIP-590)
raft: votes, epochs, metadata log, snapshots
table: the modules of the APIs
voters: UpdateRaftVoter (KIP-853)
"""
