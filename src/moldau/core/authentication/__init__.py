"""Logins, decided without a socket: SASL mechanisms, users, delegation tokens, tokens of issuers.

Read `authentication` first, then `mechanisms`, then one mechanism. The grammar of `sasl.jaas.config` is
`wire/protocol/jaas.py`.

attempts: the delay after failed logins of an address
authentication: one connection with SASL as a step machine (KIP-43, 152, 368)
bearer: the exchange of OAUTHBEARER (RFC 7628, KIP-255)
bearer_settings: settings of OAUTHBEARER at a listener (KIP-768)
delegation_tokens: the HMAC of a delegation token, and its SCRAM keys (KIP-48)
exchange: the interface of a mechanism
key_refresh: when the keys of an issuer are fetched
mechanisms: the mechanisms that a listener offers
plain: PLAIN (RFC 4616)
scram: SCRAM on the server (RFC 5802, RFC 7677, KIP-84)
settings: SASL settings of listeners and of this node
token_logins: logins by delegation tokens (KIP-48)
users: SCRAM users in the committed metadata
web_tokens: validity and subject of a JSON Web Token (RFC 7519)
"""
