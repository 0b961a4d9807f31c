"""The folder of a certificate authority: its files, and those that it does not overwrite."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from moldau.transport.authority import certificates_in, hosts_of, is_signed_by
from moldau.transport.authority_folder import CERTIFICATE, KEY, RENEW_DAYS, AuthorityError, AuthorityFolder
from moldau.transport.pkcs12 import identity_of

NOW = datetime.now(UTC)
HOSTS = ["localhost", "127.0.0.1", "::1", "kafka.example"]


@pytest.fixture
def folder(tmp_path: Path) -> AuthorityFolder:
    return AuthorityFolder.create(tmp_path / "certs", "Test", NOW)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def handshake(server_file: Path, authority: Path, host: str, client_file: Path | None = None) -> None:
    """As strict as Python can be, which is the default of 3.13. Raises ssl.SSLError."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(authority))
    server.load_cert_chain(server_file)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    if client_file is not None:
        client.load_cert_chain(client_file)
        server.load_verify_locations(authority)
        server.verify_mode = ssl.CERT_REQUIRED
        server.verify_flags |= ssl.VERIFY_X509_STRICT
    pipes = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    ends = [
        client.wrap_bio(pipes[0], pipes[1], server_hostname=host),
        server.wrap_bio(pipes[1], pipes[0], server_side=True),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", HOSTS)
def test_a_node_and_a_client_trust_each_other_by_the_folder(folder: AuthorityFolder, host: str) -> None:
    (node,) = folder.issue("node", HOSTS, NOW)
    (alice,) = folder.issue("alice", (), NOW)
    handshake(node, folder.certificate_path, host, alice)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(node, folder.certificate_path, "elsewhere.example")


def test_secrets_are_readable_by_their_owner_alone(folder: AuthorityFolder) -> None:
    written = folder.issue("alice", (), NOW, pkcs12_password="secret")
    assert [path.name for path in written] == ["alice.pem", "alice.p12"]
    assert [mode(path) for path in (*written, folder.path / KEY)] == [0o600] * 3
    assert b"PRIVATE KEY" not in folder.certificate_path.read_bytes()
    assert b"PRIVATE KEY" in identity_of(written[1].read_bytes(), "secret")


def test_nothing_is_overwritten_that_nobody_asked_to_replace(folder: AuthorityFolder) -> None:
    (path,) = folder.issue("alice", (), NOW)
    before = path.read_bytes(), (folder.path / KEY).read_bytes()
    with pytest.raises(AuthorityError, match=r"alice\.pem exists: --replace"):
        folder.issue("alice", (), NOW)
    with pytest.raises(AuthorityError, match="an authority is kept"):
        AuthorityFolder.create(folder.path, "Another", NOW)
    assert (path.read_bytes(), (folder.path / KEY).read_bytes()) == before
    folder.issue("alice", (), NOW, replace=True)
    assert path.read_bytes() != before[0]
    assert mode(path) == 0o600
    assert sorted(each.name for each in folder.path.iterdir()) == ["alice.pem", KEY, CERTIFICATE]


@pytest.mark.parametrize(
    ("name", "hosts"),
    [("../alice", ()), ("", ()), ("a" * 65, ()), ("authority", ()), ("authority.key", ()), (".a", ()), ("a", ("b c",))],
)
def test_names_that_cannot_be_are_refused(folder: AuthorityFolder, name: str, hosts: tuple[str, ...]) -> None:
    with pytest.raises(AuthorityError):
        folder.issue(name, hosts, NOW)
    assert sorted(each.name for each in folder.path.iterdir()) == [KEY, CERTIFICATE]


def test_a_key_that_others_can_read_is_refused(folder: AuthorityFolder) -> None:
    folder.key_path.chmod(0o640)
    with pytest.raises(AuthorityError, match="chmod 600"):
        AuthorityFolder(folder.path)


@pytest.mark.parametrize("damage", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_key_is_told(folder: AuthorityFolder, damage: bytes) -> None:
    folder.key_path.write_bytes(damage)
    with pytest.raises(AuthorityError, match="are not an authority"):
        AuthorityFolder(folder.path)


def test_the_key_of_another_authority_is_told(folder: AuthorityFolder, tmp_path: Path) -> None:
    other = AuthorityFolder.create(tmp_path / "other", "Other", NOW)
    folder.key_path.write_bytes(other.key_path.read_bytes())
    with pytest.raises(AuthorityError, match="the key is not that of the certificate"):
        AuthorityFolder(folder.path)


def test_a_certificate_ends_with_its_authority_at_the_latest(tmp_path: Path) -> None:
    folder = AuthorityFolder.create(tmp_path, "Short", NOW, days=10)
    (path,) = folder.issue("node", HOSTS, NOW)
    issued, signer = certificates_in(path.read_bytes())[0], certificates_in(folder.certificate_path.read_bytes())[0]
    assert issued.not_valid_after_utc <= signer.not_valid_after_utc
    assert is_signed_by(issued, signer)


def test_the_certificate_of_a_node_is_used_again_while_it_serves(folder: AuthorityFolder, tmp_path: Path) -> None:
    path, reason = folder.of_node("node", HOSTS, NOW)
    assert reason == "there was none"
    assert folder.of_node("node", HOSTS[:2], NOW) == (path, "")
    assert "did not name other.example" in folder.of_node("node", [*HOSTS, "other.example"], NOW)[1]
    assert hosts_of(certificates_in(path.read_bytes())[0]) == [*HOSTS, "other.example"]
    late = NOW + timedelta(days=365 - RENEW_DAYS + 1)
    assert "ended on" in folder.of_node("node", HOSTS, late)[1]
    other = AuthorityFolder.create(tmp_path / "other", "Test", NOW)
    other.issue("node", HOSTS, NOW)
    path.write_bytes((other.path / "node.pem").read_bytes())
    assert "of another authority" in folder.of_node("node", HOSTS, NOW)[1]
    path.write_text("nonsense")
    assert "could not be read" in folder.of_node("node", HOSTS, NOW)[1]
    assert folder.of_node("node", HOSTS, NOW)[1] == ""
