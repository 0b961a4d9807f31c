"""Commands that run a node, or work on the files of a stopped one.

announcement: lines that a node prints when it serves
certs: `moldau certs`
local_cluster/: the processes of `moldau up --brokers`
log: `moldau log dump`
log_repair: `moldau log repair` and `moldau log strays`
node: `moldau node`
storage: `moldau storage`
up: `moldau up`
up_tls: `moldau up --tls`
"""
