"""Who may do what: the rules of Apache Kafka's StandardAuthorizer over the ACLs of the metadata (KIP-11, 801).

`filters.py`: which ACLs a filter names; `hosts.py`: networks as hosts (KIP-1276); `index.py`: the ACLs as decisions
look them up; `authorizer.py`: a decision, and why."""
