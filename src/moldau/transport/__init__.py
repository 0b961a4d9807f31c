"""Sockets for clients and for event loops, TLS, an HTTP endpoint, and metrics as text.

The broker and all modules above it use this package.

access: opens clients by a `ClusterAccess`
assertions: signed assertions for issuers (RFC 7523, KIP-1258)
authority: a certificate authority
authority_folder: its folder
exposition: Prometheus' text format
held_port: a port that is kept for a later server
http_authorization: the header `Authorization`
http_endpoint: a small HTTP server for operators
http_retries: which HTTP responses are retried, and when
https_request: one bounded HTTPS request to an issuer
librdkafka: a `ClusterAccess` as librdkafka's settings
network: the network port and TCP on the running loop
oauth: tokens of issuers for clients and nodes
pkcs12: PKCS#12 stores as PEM
profiles: profiles of clusters in a file
secrets: reads referenced secrets
security: secrets and TLS contexts of a `ClusterAccess`
service_tls: TLS of HTTP services
tcp: TCP for clients that block
tls: TLS contexts from settings
tls_stream: TLS for clients that block
tls_transport: TLS over an asyncio transport
"""
