"""JSON Web Tokens (RFC 7519) to claims, for listeners and HTTP services.

Only `judge` and `key_set` import packages of the extra `oauth`.

judge: whether a token is signed and valid (RFC 7519)
key_set: public keys of an issuer (JWKS, RFC 7517)
rules: required claims, and errors of rejected tokens
"""
