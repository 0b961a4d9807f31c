"""Logins of people and machines at HTTP services.

attempts: bounds on failed logins
cluster: passwords, tried at the cluster
forms: posted forms and redirects
gate: login, log-out, and the page with a person's role
issuer: an OpenID Connect issuer: configuration, keys, tokens
machines: programs with secrets
oidc: the authorization code flow (RFC 7636)
opened: admission and TLS of a command line
passwords: Basic passwords of cluster users, remembered for a short time
sessions: sessions in memory
settings: the file of `--login`
source: the interface of a source of people
tokens: delegation tokens of sessions (KIP-48)
turns: one login of an address at a time
"""
