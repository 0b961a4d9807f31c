"""A directory of pipelines (`moldau pipeline serve`).

boards: ports and logins of the boards
directory: the pipeline files of the directory and their changes
supervisor: runs every pipeline file and follows its changes
"""
