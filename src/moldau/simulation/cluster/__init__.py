"""Runs whole nodes as one cluster from a seed: several machines, each with a broker and a controller.

The nodes run the production code; only the ports are simulated. Nodes fail while clients write, read and copy. Then the
faults end, and the cluster must keep its promises.

__main__: the command: one seed or many
administrator: moves replicas, elects leaders, changes voters
careless: a client with weak acks
changers: clients that change settings and quotas
compacted_ledger: replicas of a compacted partition
copiers: transactional copiers
faults: faults of processes, disks, clocks and networks
images: all nodes have the same metadata image
machine: a machine that starts its node again
routed_client: a client of several brokers
run: one seed
settings: settings of the cluster that a seed draws
shrink: a broken seed with fewer faults
story: a seed from the first write to the final checks
token_changer: a client of delegation tokens (KIP-48)
watch: rules about the insides of nodes
world: machines, network, clients, rules
"""
