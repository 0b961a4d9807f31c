"""What an administrator asks of a cluster: plain values in, plain values or a KafkaError out.

`client` opens the cluster and says which brokers there are; the other modules hold the questions, as functions over its
ClusterAdmin. Nothing here prints.
"""
