"""The nodes of `moldau up --brokers` as processes of one machine.

layout: the directory of the cluster and the settings of its nodes
node: `moldau node`
supervisor: starts, restarts and stops the processes
"""
