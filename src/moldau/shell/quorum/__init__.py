"""The node's part of the metadata quorum. `role` assembles its parts.

administered: the controller for administrators' handlers
applied: applied metadata, taken back if logs diverge
channel: requests to other nodes of the quorum
controller: the active controller for one epoch
controller_registration: registers this controller (KIP-919)
description: DescribeQuorum
farewell: the stop of several nodes at once
handlers/: requests on the controller's listener
heartbeat_connections: suspects a broker whose connection ends
level_watch: warns of feature levels that this node does not serve
metadata_log: `__cluster_metadata-0` at a start
publisher: the committed image and its subscribers
quorum_state: the file `quorum-state` (KIP-595, 853)
raft_driver: drives the step machine of the quorum
role: the parts of the quorum
snapshot_files: snapshots as files between nodes (KIP-630)
snapshots: writes snapshots (KIP-630)
stored_quorum: reads the state of the quorum at a start
voter_requests: changes of voters at the leader (KIP-853)
"""
