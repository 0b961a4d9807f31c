"""Access control lists (KIP-11): decisions and their reasons.

authorizer: decisions and their reasons (KIP-11, 801)
filters: which ACLs a filter matches (KIP-140, 290)
hosts: networks as hosts of ACLs (KIP-1276)
index: ACLs by principal, resource and host
settings: settings of the authorizer
stored: all ACLs by id, with an index for filters
"""
