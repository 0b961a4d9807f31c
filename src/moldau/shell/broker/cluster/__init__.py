"""The broker among the other nodes of a cluster.

addresses: addresses of brokers, as clients reach them
announcements: log lines for changes of topics and partitions
clock_watch: compares clocks with the active controller
controller_channel: requests to the active controller
controller_reports: one report to the controller at a time
directory_reports: reports log directories of replicas (KIP-858)
heartbeats: registration and heartbeats among several brokers
life_cycle: registration and stop of a broker alone (KIP-631, 841)
merged_requests: merges questions to another broker into one request
other_brokers: connections to other brokers
topic_creation: automatic creation of topics
"""
