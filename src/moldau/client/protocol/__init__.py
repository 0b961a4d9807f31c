"""The decisions of the client, without sockets or a clock: the time is an argument.

access: `ClusterAccess`: bootstrap servers, client id, timeouts
bearer: settings and answers of OAUTHBEARER
connection: frames, correlation ids and versions of one connection
metadata: brokers and partition leaders
offsets: requests and answers about offsets
retries: number and pauses of retries
sasl: PLAIN, SCRAM and OAUTHBEARER as requests and answers
secrets: references to secrets
security: security settings by Kafka's names
transactions: the state and requests of a transactional producer
"""
