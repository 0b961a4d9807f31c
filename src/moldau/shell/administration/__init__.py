"""Handlers of administrators' requests, on a broker's and a controller's listeners.

acls: CreateAcls, DeleteAcls, DescribeAcls
asking: the node as these handlers see it
client_quotas: quotas
cluster: features and unregistration
configs: DescribeConfigs and its alterations
delegation_tokens: delegation tokens (KIP-48, 373)
loggers: levels of our loggers
partitions: new partitions, elections, reassignments
sasl: SASL requests on a listener without SASL
scram: SCRAM credentials
table: the modules of the APIs
tls_stores: tries changed TLS stores (KIP-226, 978)
topics: CreateTopics and DeleteTopics
voters: voters of the quorum (KIP-853)
"""
