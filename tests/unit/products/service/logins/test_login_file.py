"""The file of users: its contents, and rejected ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.protocol.secrets import Secret
from moldau.products.service.logins.opened import OpenServiceError, read_opening
from moldau.products.service.logins.settings import LoginFileError, read_login_file
from moldau.products.service.people import Role

WHOLE = """
[login]
source = "oidc"
without_tokens = "service"
idle_minutes = 5
hours = 2

[roles]
admin = ["alice", "User:root"]
viewer = ["*"]

[subjects."orders-"]
editor = ["carol"]

[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
ssl.key.password = {env = "KEY_PASSWORD"}

[oidc]
issuer = "https://login.example.org"
client.id = "moldau"
client.secret = {file = "oidc-secret"}
principal.claim = "preferred_username"
"""


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "people.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_it_says_who_has_which_role_and_where_the_secrets_are(tmp_path: Path) -> None:
    found = read_login_file(written(tmp_path, WHOLE))
    roles = {name: found.roles.of(name) for name in ("alice", "root", "bob")}
    assert roles == {"alice": Role.ADMIN, "root": Role.ADMIN, "bob": Role.VIEWER}
    assert found.subjects_of("carol") == (("orders-", Role.EDITOR),)
    assert (found.idle_s, found.absolute_s, found.acts_without_tokens) == (300, 7_200, True)
    assert dict(found.tls) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.key.password": "${env:KEY_PASSWORD}",
    }
    assert found.oidc is not None
    assert found.oidc.client_secret == Secret.in_file(str(tmp_path / "oidc-secret"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[roles]\nowner = ["alice"]', "roles.owner is not known"),
        ('[roles]\nadmin = "alice"', "roles.admin must be a list of names"),
        ('[role]\nadmin = ["alice"]', "role is not known; did you mean roles"),
        ("", "nobody has a role"),
        ('[login]\nsource = "ldap"\n[roles]\nviewer=["*"]', "login.source must be one of cluster, oidc, not 'ldap'"),
        ('[login]\nsource = "oidc"\n[roles]\nviewer=["*"]', "there is no table .oidc."),
        ('[login]\nhours = 0\n[roles]\nviewer=["*"]', "login.hours must be a whole number from 1 to 168, not 0"),
        (WHOLE.replace("https://login", "http://login"), "oidc.issuer must begin with https://"),
        (WHOLE.replace('{file = "oidc-secret"}', '"PLANTED"'), "oidc.client.secret must be a reference"),
        ('[roles]\nviewer = ["*"]\n[tls]\nkey = "a"', "tls.key is not known"),
        ("[roles", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_the_file(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(LoginFileError, match=reason) as caught:
        read_login_file(path)
    assert str(path) in str(caught.value)
    assert "PLANTED" not in str(caught.value)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoginFileError, match=r"others can read it \(mode 0640\)"):
        read_login_file(written(tmp_path, WHOLE, 0o640))
    with pytest.raises(LoginFileError, match="No such file"):
        read_login_file(tmp_path / "absent.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_a_service_open_to_others_has_a_login_and_tls_or_does_not_start(tmp_path: Path, host: str) -> None:
    with pytest.raises(OpenServiceError, match=r"no logins and TLS. This mends it:\n--login FILE .*\n.tls. in"):
        read_opening(host, None)
    with pytest.raises(OpenServiceError, match="has no TLS"):
        read_opening(host, written(tmp_path, '[roles]\nviewer = ["*"]'))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_on_the_loopback_nothing_is_asked_for(tmp_path: Path, host: str) -> None:
    assert read_opening(host, None).settings is None
    assert read_opening(host, written(tmp_path, '[roles]\nviewer = ["*"]')).tls is None
