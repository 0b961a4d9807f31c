"""Commands that serve a cluster over HTTP.

child_service: a service next to a broker that starts at its first request
console: `moldau console`
machine: `moldau machine`: secrets for programs
registry: `moldau registry`
service: cluster, logins, port and socket of HTTP services
"""
