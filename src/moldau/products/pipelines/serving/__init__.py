"""A directory of pipelines (`moldau pipeline serve`).

boards: ports and logins of the boards
directory: the pipeline files of the directory and their changes
shared_session: runs every pipeline file in one Spark session
supervisor: runs every pipeline file in its own process, and follows its changes
"""
