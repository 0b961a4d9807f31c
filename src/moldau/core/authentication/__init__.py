"""Who a client is, decided without a socket: SASL PLAIN, SCRAM and OAUTHBEARER, and when it must authenticate again.

Read `authentication` first (one connection's step machine), then `mechanisms` (what a listener offers), `plain`,
`scram` and `bearer` (one exchange each), `users` (where SCRAM finds credentials), `web_tokens` (whose a token is; only
this imports the packages of the extra `oauth`), and `attempts` (what a failed attempt costs). The grammar of
`sasl.jaas.config` is `wire/protocol/jaas.py`, and the judge of tokens `wire/web_tokens`: others read them, too.
"""
