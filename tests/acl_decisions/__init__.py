"""Compares decisions by ACLs with Apache Kafka's own authorizer: `make acl-decisions`."""
