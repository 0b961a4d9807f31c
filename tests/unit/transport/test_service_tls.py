"""The TLS of a service: its certificate changes while it runs."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from pathlib import Path

import pytest

from moldau.errors import KafkaError
from moldau.transport.service_tls import ServiceTls
from tests.support.certificates import authority

WAIT_S = 60


def settings_of(path: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def serial_seen(tls: ServiceTls, tmp_path: Path) -> str:
    """Of the certificate for a client that names no host."""
    near, far = socket.socketpair()
    near.settimeout(WAIT_S)
    far.settimeout(WAIT_S)
    context = ssl.create_default_context(cafile=str(authority().write(tmp_path)))
    context.check_hostname = False

    def serve() -> None:
        with tls.context.wrap_socket(far, server_side=True) as connection:
            connection.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with context.wrap_socket(near) as connection:
        certificate = connection.getpeercert()
        connection.send(b"!")
    thread.join(WAIT_S)
    assert certificate is not None
    return str(certificate["serialNumber"])


def put(path: Path, tmp_path: Path) -> None:
    """Replaces the old file by a new one."""
    os.replace(authority().issue("CN=service").write(tmp_path, "new"), path)


def test_a_new_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    path = authority().issue("CN=service").write(tmp_path, "service")
    tls = ServiceTls(settings_of(path))
    first = serial_seen(tls, tmp_path)
    assert tls.look() is None
    put(path, tmp_path)
    assert tls.look() == "the service uses its new certificate for new connections"
    assert serial_seen(tls, tmp_path) != first
    assert tls.look() is None


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    path = authority().issue("CN=service").write(tmp_path, "service")
    tls = ServiceTls(settings_of(path))
    first = serial_seen(tls, tmp_path)
    path.write_text("no certificate")
    assert "keeps its old certificate" in (tls.look() or "")
    assert serial_seen(tls, tmp_path) == first
    path.unlink()
    assert "keeps its old certificate" in (tls.look() or "")
    put(path, tmp_path)
    assert tls.look() == "the service uses its new certificate for new connections"


def test_a_service_without_a_key_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="needs a key and a certificate"):
        ServiceTls({"ssl.keystore.type": "PEM"})
    with pytest.raises(KafkaError, match="cannot read"):
        ServiceTls(settings_of(tmp_path / "absent.pem"))
