"""JSON Web Tokens (RFC 7519) to claims, for the broker (OAUTHBEARER) and for the services.

`rules`: what a token must say, and why it is rejected. `key_set`: the keys of an issuer. `judge`: whether a token is
valid. Only the last two import the packages of the extra `oauth`.
"""
