"""The login of all clients of a run: by SCRAM-SHA-512 on SASL_SSL, or none if the environment names no user.

It is in the environment, which the processes of members and drivers inherit.
"""

from __future__ import annotations

import os
import ssl
from typing import Any

USER = "MOLDAU_CONFORMANCE_USER"
PASSWORD = "MOLDAU_CONFORMANCE_PASSWORD"
AUTHORITY = "MOLDAU_CONFORMANCE_AUTHORITY"
"""The path of the CA certificate that signed the brokers' certificates."""
MECHANISM = "SCRAM-SHA-512"


def has_login() -> bool:
    return USER in os.environ


def librdkafka() -> dict[str, Any]:
    """Of confluent-kafka and kcat."""
    if not has_login():
        return {}
    return librdkafka_as(os.environ[USER], os.environ[PASSWORD], os.environ[AUTHORITY])


def librdkafka_as(user: str, password: str, authority: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority,
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
    }


def _of_python() -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": os.environ[USER],
        "sasl_plain_password": os.environ[PASSWORD],
    }


def kafka_python() -> dict[str, Any]:
    return {**_of_python(), "ssl_cafile": os.environ[AUTHORITY]} if has_login() else {}


def aiokafka() -> dict[str, Any]:
    if not has_login():
        return {}
    return {**_of_python(), "ssl_context": ssl.create_default_context(cafile=os.environ[AUTHORITY])}
