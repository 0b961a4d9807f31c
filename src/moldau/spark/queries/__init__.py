"""The streaming queries of a Spark session, and their supervision.

namespace: sessions with views of their own, on the same Spark
query_set: owns the queries of one Spark session
supervised_state: the state of one query
supervision: restarts a failed query
"""
