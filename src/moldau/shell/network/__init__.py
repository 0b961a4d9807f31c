"""Connections of clients: frames, order, bounds, dispatch.

admission: serves, holds or closes new connections
api_versions: the answer to ApiVersions on every listener
audit: the queue of the audit log
authenticating: SASL on a connection
background: tasks next to connections, and their errors
bounds: memory bounds of all connections
cluster_description: DescribeCluster on every listener
connection_group: all connections of a node
connection_state: states of a connection
context: a request's client, listener and version, for handlers
dispatch: a frame to its handler, and the answer back
event_log: log lines about clients, escaped and limited
first_step: runs the first step of a handler at once
flow_control: why a connection begins no further request
freeing: frees large messages bit by bit
idle_watch: closes idle connections
long_frame: a buffer for one long frame
node_parts: the parts of quorum and broker
pauses: long work shares one millisecond in each turn of the loop
pending_response: one answer, ready or waiting
reply: the connection as handlers see it
request_stats: counts and times of requests
response_queue: answers in the order of requests
rights: an operation on a kind of resource, and its error (KIP-11)
server_connection: one connection: bytes in, frames, answers out
session: the principal, address and listener of a client
streamed_answer: writes an answer while its records are read
"""
