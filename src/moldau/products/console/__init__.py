"""The web console: topics, records, groups, brokers, pipelines.

__main__: the console as a child of a broker
browse: searches the records of a topic
called_service: a service over HTTP that the console asks
certificates: expiry of brokers' certificates
cluster: requests to the cluster, on worker threads
cluster_state: brokers, replicas and quorum of a cluster
connect_pages: what people do with connectors
connect_server: requests to the workers of connectors
core/: decisions of the console, without a cluster
dead_letters: the newest dead letters of a pipeline
desks: the pages of each person, with that person's access
own_consumer: records by Moldau's own client, for logins by tokens
pipelines: pipelines, found by their groups
routes: paths and their pages
sampler: samples for charts, while a page is open
service: the console as a service
sql_pages: the editor of SQL
sql_server: requests to the instances of a SQL service
tail: the live tail of a topic
"""
