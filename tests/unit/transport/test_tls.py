"""Stores of keys and certificates: valid ones make a context, others give an error message."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

from moldau.core.config.tls_settings import TlsSettings
from moldau.errors import KafkaError
from moldau.transport.tls import client_context, load_material, server_context
from tests.support.certificates import Authority, Issued, authority
from tests.support.tls_settings import identity, settings_of, trust


def server_of(settings: TlsSettings) -> ssl.SSLContext:
    return server_context(settings, load_material(settings))


def refused(**texts: str) -> str:
    with pytest.raises(KafkaError) as caught:
        server_of(settings_of(**texts))
    return str(caught.value.message)


def pem_store(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return {"keystore_type": "PEM", "keystore_location": str(path)}


def test_a_key_with_a_password_needs_it(tmp_path: Path) -> None:
    issued, path = authority().issue("CN=server"), tmp_path / "server.pem"
    store = pem_store(path, issued.key_pem_with("secret") + issued.chain_pem)
    server_of(settings_of(**store, key_password="secret"))
    assert refused(**store) == f"{path}: the private key is encrypted, and ssl.key.password is not set"
    assert refused(**store, key_password="wrong").endswith("is damaged or ssl.key.password is wrong")


def test_pem_that_a_file_of_properties_has_in_one_line_is_read() -> None:
    issued = authority().issue("CN=server")
    joined = {name: text.replace("\n", " ") for name, text in identity(issued).items()}
    server_of(settings_of(**joined))
    settings = settings_of(
        **identity(issued), truststore_type="PEM", truststore_certificates=authority().pem.replace("\n", "")
    )
    assert len(client_context(settings, load_material(settings)).get_ca_certs()) == 1


@pytest.mark.parametrize("kind", ["PKCS12", "pkcs12", "JKS"])
def test_pkcs12_is_read_also_under_the_default_type(tmp_path: Path, kind: str) -> None:
    issued = authority().issue("CN=server")
    (tmp_path / "key.p12").write_bytes(issued.pkcs12("secret"))
    only = pkcs12.serialize_key_and_certificates(None, None, None, [authority().own.certificate], NoEncryption())
    (tmp_path / "trust.p12").write_bytes(only)
    settings = settings_of(
        keystore_type=kind,
        keystore_location=str(tmp_path / "key.p12"),
        keystore_password="secret",
        truststore_type=kind,
        truststore_location=str(tmp_path / "trust.p12"),
    )
    server_of(settings)
    context = client_context(settings, load_material(settings))
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "Test authority"),),)]
    assert load_material(settings).expires_ms == int(issued.certificate.not_valid_after_utc.timestamp() * 1_000)


def test_a_store_that_cannot_be_used_is_told_in_one_sentence(tmp_path: Path) -> None:
    issued, other = authority().issue("CN=server"), authority().issue("CN=other")
    path = tmp_path / "s.jks"
    stored = {"keystore_location": str(path), "keystore_password": "x"}
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    assert refused(**stored) == (
        f"{path} is a JKS store, which only Java reads. Convert it: keytool -importkeystore -srckeystore {path} "
        f"-destkeystore {tmp_path}/s.p12 -deststoretype PKCS12"
    )
    path.write_bytes(issued.pkcs12("secret"))
    assert refused(**stored) == f"{path}: Invalid password or PKCS12 data"
    path.write_text(issued.key_pem + issued.chain_pem)
    assert refused(**stored).startswith(f"{path} is PEM, and its type is JKS: set ssl.keystore.type")
    assert refused(**pem_store(path, issued.chain_pem)) == f"{path}: holds no private key in PEM"
    assert refused(**pem_store(path, issued.key_pem)) == f"{path}: holds no certificate in PEM"
    assert refused(**pem_store(path, other.key_pem + issued.chain_pem)) == (
        f"{path}: the private key is not that of the first certificate"
    )
    path.unlink()
    assert refused(keystore_type="PEM", keystore_location=str(path)) == (
        f"cannot read {path}: No such file or directory"
    )
    assert refused(**trust(authority())).startswith("a listener with TLS needs a key and a certificate")
    assert refused(**identity(issued), truststore_type="PEM", truststore_certificates="none") == (
        "ssl.truststore.certificates holds no certificate"
    )


@pytest.mark.parametrize(
    ("suites", "lowest", "highest"),
    [
        ("", "TLSv1_2", "TLSv1_3"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLSv1_2", "TLSv1_2"),
        (
            "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256,"
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLSv1_2",
            "TLSv1_3",
        ),
    ],
)
def test_suites_say_which_versions_are_spoken(suites: str, lowest: str, highest: str) -> None:
    context = server_of(settings_of(**identity(authority().issue("CN=server")), cipher_suites=suites))
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)
    names = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert names
    assert all(("GCM" in name or "CHACHA20" in name) and name.startswith(("ECDHE", "DHE")) for name in names)


@pytest.mark.parametrize(
    ("suites", "versions", "told"),
    [
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLSv1.2", "TLS_RSA_WITH_AES_128_CBC_SHA is not served, only suites with"),
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", "name all suites of TLS 1.3 or none"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLSv1.3", "has no suite of the versions"),
    ],
)
def test_a_suite_that_is_not_safe_or_cannot_be_had_is_refused(suites: str, versions: str, told: str) -> None:
    issued = authority().issue("CN=server")
    assert told in refused(**identity(issued), cipher_suites=suites, enabled_protocols=versions)


def test_secrets_are_in_no_representation() -> None:
    issued: Issued = authority().issue("CN=server")
    settings = settings_of(**identity(issued), key_password="hidden")
    shown = f"{settings!r} {settings.keystore!r} {load_material(settings)!r}"
    assert "hidden" not in shown
    assert "PRIVATE KEY" not in shown


def test_any_certificate_of_a_trust_store_is_an_anchor() -> None:
    """As in Java: also one that is not self-signed."""
    alone = Authority("CN=Far").issue("CN=server")
    settings = settings_of(
        **identity(alone), truststore_type="PEM", truststore_certificates=alone.chain_pem, client_auth="required"
    )
    server, client = server_of(settings), client_context(settings, load_material(settings))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    assert sides[1].getpeercert(binary_form=True) == alone.der
