"""What the nouns and Kafka's own tools ask of a cluster: plain values in, plain values or a KafkaError out.

`client` opens it and says who is there; the other modules hold the questions, as functions over its ClusterAdmin.
Nothing here prints.
"""
