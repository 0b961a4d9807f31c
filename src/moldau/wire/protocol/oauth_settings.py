"""The settings for getting OAUTHBEARER tokens, for clients and for nodes (KIP-768, 1139)."""

from __future__ import annotations

from typing import Final

TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
OAUTH_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
OAUTH_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
OAUTH_SCOPE: Final = "sasl.oauthbearer.scope"
OAUTH_ASSERTION_FILE: Final = "sasl.oauthbearer.assertion.file"
OAUTH_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
ASSERTION_KEY_FILE: Final = "sasl.oauthbearer.assertion.private.key.file"
ASSERTION_PASSPHRASE: Final = "sasl.oauthbearer.assertion.private.key.passphrase"
ASSERTION_ALGORITHM: Final = "sasl.oauthbearer.assertion.algorithm"
ASSERTION_ISSUER: Final = "sasl.oauthbearer.assertion.claim.iss"
ASSERTION_SUBJECT: Final = "sasl.oauthbearer.assertion.claim.sub"
ASSERTION_AUDIENCE: Final = "sasl.oauthbearer.assertion.claim.aud"
ASSERTION_LASTS_S: Final = "sasl.oauthbearer.assertion.claim.exp.seconds"
ASSERTION_BEGINS_S: Final = "sasl.oauthbearer.assertion.claim.nbf.seconds"
ASSERTION_HAS_ID: Final = "sasl.oauthbearer.assertion.claim.jti.include"
LOGIN_TIMES: Final = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
)
OAUTH_SETTINGS: Final = (
    TOKEN_ENDPOINT,
    OAUTH_CLIENT_ID,
    OAUTH_CLIENT_SECRET,
    OAUTH_SCOPE,
    OAUTH_ASSERTION_FILE,
    OAUTH_RETRIEVER,
    ASSERTION_KEY_FILE,
    ASSERTION_PASSPHRASE,
    ASSERTION_ALGORITHM,
    ASSERTION_ISSUER,
    ASSERTION_SUBJECT,
    ASSERTION_AUDIENCE,
    ASSERTION_LASTS_S,
    ASSERTION_BEGINS_S,
    ASSERTION_HAS_ID,
    *LOGIN_TIMES,
)
"""All settings of this module."""
OAUTH_CLASSES: Final = "org.apache.kafka.common.security.oauthbearer."
"""The package of Kafka's classes in settings."""
