"""Requests that must be rejected, by subject.

case: a request and its expected answer
cluster_cases: cluster, features, credentials, ACLs
frame_cases: bytes that are not a request
group_cases: groups
looks: state that no rejected request may change
record_cases: records
scenes: requests that build on each other
settings_cases: settings and quotas
table: all of them, and the records that they need
topic_cases: topics and partitions
"""
