"""Decisions by ACLs compared with Apache Kafka's own authorizer: `make acl-decisions`."""
