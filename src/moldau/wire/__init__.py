"""Bytes to values and back. No decisions.

protocol/: requests and responses
records/: record batches
web_tokens/: JSON Web Tokens and the keys of their issuers
x509: fields of X.509 certificates
"""
