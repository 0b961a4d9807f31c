"""The metrics of a node. A metric is a row of `table` and a value of `collect`.

absent: metrics of Apache Kafka that are missing, with the reason
collect: reads all values for one scrape
groups: groups and lag
reference_page: writes docs/reference/metrics.md
security: listeners, certificates, audit log
table: one row for each metric
transactions: transactions
"""
