"""Handlers of administrators' requests, on a broker's and a controller's listeners.

acls: CreateAcls, DeleteAcls, DescribeAcls
asking: what these handlers know of their node
client_quotas: quotas
cluster: features and unregistration
configs: DescribeConfigs and its alterations
delegation_tokens: delegation tokens (KIP-48, 373)
loggers: levels of our loggers
partitions: new partitions, elections, reassignments
sasl: SASL requests on a listener without SASL
scram: SCRAM credentials
table: which module serves which API
tls_stores: tries changed TLS stores (KIP-226, 978)
topics: CreateTopics and DeleteTopics
voters: voters of the quorum (KIP-853)
"""
