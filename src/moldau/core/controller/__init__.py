"""The controller: a log-backed machine whose log is `__cluster_metadata`.

access_control: creates and deletes ACLs (KIP-140, 290, 1276)
administration: requests of operators, imported at the first one
assignments: replicas and limits that requests for topics and partitions share
automatic_topics: internal topics and automatic creation
brokers: heartbeats, fencing and controlled shutdown
client_quotas: sets, removes and describes quotas (KIP-546, 612)
config_alterations: changes of settings (KIP-133, 226, 339)
configs: settings as the controller sees them
delegation_tokens: creates, renews, expires and removes tokens (KIP-48, 373)
directories: the log directory of each replica (KIP-858)
elections: leaders and in-sync replicas when brokers come and go (KIP-966)
features: finalized feature levels (KIP-584, 1022)
in_sync_replicas: AlterPartition (KIP-497, 704, 841, 903)
leader_elections: elections on request (KIP-183, 460)
machine: the machine: requests to records, records to state
partition_changes: records for partitions whose brokers changed
partitions: more partitions for a topic (KIP-195)
placement: replicas of new partitions over brokers and racks
producer_ids: blocks of producer ids (KIP-730)
quorum_description: the answer to DescribeQuorum (KIP-595, 836, 853)
reassignments: reassignments: start, progress, cancellation (KIP-455, 860)
registrations: registration of brokers and controllers (KIP-631, 858, 919, 966)
requests: the requests of the controller
rounds: repeated work: sessions, preferred leaders, idle tasks
scram: SCRAM credentials (KIP-554)
sessions: heartbeats of brokers, which no record keeps (KIP-631)
survivor: the metadata of a cluster with one node left
topic_names: valid topic names
topics: creates and deletes topics
"""
