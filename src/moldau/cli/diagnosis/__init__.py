"""Why a client cannot use a cluster.

doctor: `moldau doctor`
refusals: sentences for failures of TLS, logins and ACLs
steps: the steps of `doctor`: name, port, protocol, advertised addresses
strangers: detects TLS, HTTP or SASL at an address
"""
