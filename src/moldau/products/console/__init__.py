"""The web console: topics, records, groups, brokers, pipelines.

__main__: the console as a child of a broker
browse: searches the records of a topic
certificates: when certificates of brokers end
cluster: questions to the cluster, on worker threads
cluster_state: brokers, replicas and quorum of a cluster
core/: decisions of the console, without a cluster
dead_letters: the newest dead letters of a pipeline
desks: the views of each person, with that person's access
own_consumer: records by our client, for logins by tokens
pipelines: pipelines, found by their groups
routes: paths and their pages
sampler: samples for charts, while somebody looks
service: the console as a service
tail: the live tail of a topic
"""
