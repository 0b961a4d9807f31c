"""A Spark session, on this machine or on a server, its Python processes, and the state of its queries.

class_cache: a JVM's class cache, for a faster start
connect: sessions of a Spark Connect server
executors: checks the executors of a cluster
java: finds Java, and the programs that Spark starts
jvm_lock: a lock that the session's JVM holds
query_states: the state of streaming queries, as a table and metrics
query_watch: shows streaming queries while they run
session: a local SparkSession
settings_during: settings of a session for a while
task_secrets: whether tasks can read referenced secrets
worker_daemon: Spark's Python daemon, with imports done
worker_host: a process that forks Python workers
worker_launch: starts a worker through the worker host
worker_sources: a process that answers for all streaming sources
worker_start: starts the worker host
"""
