"""The security settings of listeners, part of `BrokerSettings`."""

# without `from __future__ import annotations`: rows are read from annotations, which would be texts
from typing import Annotated, NamedTuple

import msgspec

from moldau.core.config.listeners import parse_protocol_map
from moldau.core.config.setting import PER_BROKER, READ_ONLY, SettingValue, parse_value
from moldau.core.config.tls_settings import TlsSettings, tls_settings
from moldau.wire.protocol.security_protocols import PLAINTEXT, SECURITY_PROTOCOLS, has_tls

HTTP = "HTTP"
"""The listener name in the TLS settings of `moldau.http.listener`: `listener.name.http.ssl.*`."""


class Row(NamedTuple):
    """Makes a field of `BrokerSettings` a setting. The cells are those of broker_setting_rows.py."""

    kind: str
    default: str | None
    valid: str
    scope: str
    note: str = ""
    held: str = ""
    """The metric of a setting that bounds a resource: the thing that is counted. "" for other settings."""


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that `BrokerSettings` inherits."""

    texts: dict[str, str]
    """The settings as they were written. Never changed."""

    # fmt: off
    listener_security_protocol_map: Annotated[str, Row("string",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", PER_BROKER)]
    connection_failed_authentication_delay_ms: Annotated[int, Row("int", "100", "[0,...]", READ_ONLY,
        "doubles with each further failed attempt of an address, up to 10 s")]
    connections_max_reauth_ms: Annotated[int, Row("long", "0", "", READ_ONLY)]
    delegation_token_expiry_check_interval_ms: Annotated[int, Row("long", "3600000", "[1,...]", READ_ONLY)]
    delegation_token_expiry_time_ms: Annotated[int, Row("long", "86400000", "[1,...]", READ_ONLY)]
    delegation_token_max_lifetime_ms: Annotated[int, Row("long", "604800000", "[1,...]", READ_ONLY)]
    delegation_token_secret_key: Annotated[str | None, Row("password", None, "", READ_ONLY,
        "the same on every node of a cluster; without it there are no delegation tokens")]
    # of SASL: those without a listener's prefix; see core/authentication/settings.py
    sasl_enabled_mechanisms: Annotated[tuple[str, ...], Row("list", "GSSAPI", "", PER_BROKER,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; a listener with SASL must name those that it offers")]
    sasl_jaas_config: Annotated[str | None, Row("password", None, "", PER_BROKER,
        "as in Kafka, only with the prefix of a listener and a mechanism: listener.name.LISTENER.MECHANISM.")]
    sasl_mechanism_controller_protocol: Annotated[str, Row("string", "GSSAPI", "", READ_ONLY)]
    sasl_mechanism_inter_broker_protocol: Annotated[str, Row("string", "GSSAPI", "", PER_BROKER)]
    sasl_server_callback_handler_class: Annotated[str | None, Row("class", None, "", READ_ONLY,
        "with the prefix of a listener and OAUTHBEARER: OAuthBearerValidatorCallbackHandler, the default there")]
    sasl_server_max_receive_size: Annotated[int, Row("int", "524288", "", READ_ONLY)]
    # of OAUTHBEARER: see core/authentication/bearer_settings.py
    moldau_oauthbearer_allowed_urls: Annotated[tuple[str, ...], Row("list", "", "", READ_ONLY,
        "the whole URLs from which keys and tokens may be fetched; of Kafka a system property")]
    sasl_oauthbearer_allow_unverified_audience: Annotated[bool, Row("boolean", "false", "", READ_ONLY)]
    sasl_oauthbearer_allow_unverified_issuer: Annotated[bool, Row("boolean", "false", "", READ_ONLY)]
    sasl_login_callback_handler_class: Annotated[str | None, Row("class", None, "", READ_ONLY,
        "with the prefix of a listener and OAUTHBEARER: OAuthBearerLoginCallbackHandler, the default there")]
    sasl_login_connect_timeout_ms: Annotated[int | None, Row("int", None, "", READ_ONLY,
        "of a try to have a token; both time-outs together, or 10 s, or at most 2 minutes for a login")]
    sasl_login_read_timeout_ms: Annotated[int | None, Row("int", None, "", READ_ONLY)]
    sasl_login_retry_backoff_max_ms: Annotated[int, Row("long", "10000", "", READ_ONLY)]
    sasl_login_retry_backoff_ms: Annotated[int, Row("long", "100", "", READ_ONLY,
        "at most three tries for a login")]
    sasl_oauthbearer_assertion_algorithm: Annotated[str, Row("string", "RS256", "(case insensitive) [ES256, RS256]",
        READ_ONLY)]
    sasl_oauthbearer_assertion_claim_aud: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_assertion_claim_exp_seconds: Annotated[int, Row("int", "300", "[0,...,86400]", READ_ONLY)]
    sasl_oauthbearer_assertion_claim_iss: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_assertion_claim_jti_include: Annotated[bool, Row("boolean", "false", "", READ_ONLY)]
    sasl_oauthbearer_assertion_claim_nbf_seconds: Annotated[int, Row("int", "60", "[0,...,3600]", READ_ONLY)]
    sasl_oauthbearer_assertion_claim_sub: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_assertion_file: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_assertion_private_key_file: Annotated[str | None, Row("string", None, "", READ_ONLY,
        "PEM; read for each assertion")]
    sasl_oauthbearer_assertion_private_key_passphrase: Annotated[str | None, Row("password", None, "", READ_ONLY)]
    sasl_oauthbearer_client_credentials_client_id: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_client_credentials_client_secret: Annotated[str | None, Row("password", None, "", READ_ONLY)]
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Row("int", "30", "", READ_ONLY)]
    sasl_oauthbearer_expected_audience: Annotated[tuple[str, ...], Row("list", "", "", READ_ONLY)]
    sasl_oauthbearer_expected_issuer: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[int, Row("long", "3600000", "", READ_ONLY)]
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Annotated[int, Row("long", "10000", "", READ_ONLY)]
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Annotated[int, Row("long", "100", "", READ_ONLY)]
    sasl_oauthbearer_jwks_endpoint_url: Annotated[str | None, Row("string", None, "", READ_ONLY,
        "file: (read again within 5 s of a change), or https: and in moldau.oauthbearer.allowed.urls")]
    sasl_oauthbearer_jwt_retriever_class: Annotated[str, Row("class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "", READ_ONLY,
        "also ClientCredentialsJwtRetriever and JwtBearerJwtRetriever")]
    sasl_oauthbearer_jwt_validator_class: Annotated[str, Row("class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "", READ_ONLY)]
    sasl_oauthbearer_scope: Annotated[str | None, Row("string", None, "", READ_ONLY)]
    sasl_oauthbearer_scope_claim_name: Annotated[str, Row("string", "scope", "", READ_ONLY)]
    sasl_oauthbearer_sub_claim_name: Annotated[str, Row("string", "sub", "", READ_ONLY)]
    sasl_oauthbearer_token_endpoint_url: Annotated[str | None, Row("string", None, "", READ_ONLY,
        "of a node's own tokens; https: and in moldau.oauthbearer.allowed.urls, or a file:///")]
    # of TLS: those without a listener's prefix; see `tls_of`
    ssl_allow_dn_changes: Annotated[bool, Row("boolean", "false", "", READ_ONLY,
        "whether the certificate of a node that runs may become that of another subject")]
    ssl_allow_san_changes: Annotated[bool, Row("boolean", "false", "", READ_ONLY,
        "whether it may lack a host that it had")]
    ssl_cipher_suites: Annotated[tuple[str, ...], Row("list", "", "", PER_BROKER,
        "of TLS 1.2 only suites with forward secrecy and authenticated encryption; of TLS 1.3 all or none")]
    ssl_client_auth: Annotated[str, Row("string", "none", "[required, requested, none]", PER_BROKER)]
    ssl_enabled_protocols: Annotated[tuple[str, ...], Row("list",
        "TLSv1.2,TLSv1.3", "", PER_BROKER, "no others: older ones are not safe")]
    ssl_endpoint_identification_algorithm: Annotated[str, Row("string", "https", "", PER_BROKER)]
    ssl_key_password: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_keystore_certificate_chain: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_keystore_key: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_keystore_location: Annotated[str | None, Row("string", None, "", PER_BROKER,
        "a file that changes is read again within 5 s")]
    ssl_keystore_password: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_keystore_type: Annotated[str, Row("string", "JKS", "", PER_BROKER,
        "PEM or PKCS12; a store that is really JKS is refused with the line that converts it")]
    ssl_principal_mapping_rules: Annotated[str, Row("string", "DEFAULT", "", READ_ONLY)]
    ssl_protocol: Annotated[str, Row("string", "TLSv1.3", "", PER_BROKER, "ssl.enabled.protocols decides")]
    ssl_truststore_certificates: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_truststore_location: Annotated[str | None, Row("string", None, "", PER_BROKER)]
    ssl_truststore_password: Annotated[str | None, Row("password", None, "", PER_BROKER)]
    ssl_truststore_type: Annotated[str, Row("string", "JKS", "", PER_BROKER)]
    # of moldau.http.listener
    moldau_http_tls: Annotated[bool, Row("boolean", "false", "", READ_ONLY,
        "whether moldau.http.listener speaks HTTPS: by listener.name.http.ssl.* or ssl.*")]
    moldau_http_users_file: Annotated[str, Row("string", "", "", READ_ONLY,
        "who may read /metrics, a line NAME=SHA256 each as `moldau machine NAME` prints it; empty: everybody")]
    # fmt: on

    def protocol_of(self, listener_name: str) -> str:
        """The security protocol of a listener, such as "SSL". As in Kafka, the controller listener is PLAINTEXT if the
        map does not name it."""
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        return protocols.get(listener_name.upper(), PLAINTEXT)

    def protocol_code_of(self, listener_name: str) -> int:
        """The protocol's number in the metadata: 0 is PLAINTEXT, 1 SSL."""
        return SECURITY_PROTOCOLS.index(self.protocol_of(listener_name))

    def value_at(self, listener_name: str, mechanism: str, name: str) -> SettingValue:
        """The value of the setting `name` for a SASL mechanism of a listener. As in Kafka, the nearest prefix counts.
        Raises error 40."""
        prefix = f"listener.name.{listener_name.lower()}."
        names = (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name)
        return typed_setting(name, next((self.texts[each] for each in names if each in self.texts), None))

    def tls_of(self, listener_name: str) -> TlsSettings | None:
        """The TLS settings of a listener; None without TLS. Raises error 40 for an impossible combination."""
        if not has_tls(self.protocol_of(listener_name)) and not (listener_name == HTTP and self.moldau_http_tls):
            return None
        return tls_settings(listener_name, self.texts, typed_setting)


_ROWS: dict[str, Row] = {
    field.replace("_", "."): annotation.__metadata__[0]
    for field, annotation in SecuritySettings.__annotations__.items()
    if hasattr(annotation, "__metadata__")
}


def typed_setting(name: str, text: str | None) -> SettingValue:
    """The value of `text` for the setting `name`, a field of SecuritySettings. None: its default. Raises error 40."""
    row = _ROWS[name]
    chosen = row.default if text is None else text
    return None if chosen is None else parse_value(name, row.kind, chosen)
