"""Who a client is, decided without a socket: SASL PLAIN and SCRAM, and when a client must authenticate again.

Read `authentication` first (one connection's step machine), then `mechanisms` (what a listener offers), `plain` and
`scram` (one exchange each), `users` (where SCRAM finds credentials), and `attempts` (what a failed attempt costs). The
grammar of `sasl.jaas.config` is `wire/protocol/jaas.py`: clients read it, too.
"""
