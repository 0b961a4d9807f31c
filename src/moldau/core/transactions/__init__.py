"""The transaction coordinator: the machine of a `__transaction_state` partition.

beginning: InitProducerId and added partitions
describing: DescribeTransactions and ListTransactions (KIP-664, 994, 1152)
ending: EndTxn, timeouts, fencing, completion
expiry: expired transactional ids
machine: the machine
pattern: patterns of ListTransactions in linear time
records: the records of `__transaction_state`
requests: requests and replies of the machine
state: the folded state (KIP-98, 360, 890)
"""
