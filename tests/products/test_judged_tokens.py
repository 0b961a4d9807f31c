"""Brokers and services accept and reject the same tokens of a table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.core.authentication.bearer_settings import TokenRules
from moldau.core.authentication.web_tokens import check_web_token
from moldau.products.service.logins.issuer import BearerTokens
from moldau.products.service.logins.settings import read_login_file
from moldau.products.service.logins.source import LoginRefused
from moldau.wire.web_tokens.key_set import parse_key_set
from moldau.wire.web_tokens.rules import TokenRefusedError
from tests.support.bearer_logins import Row, stricter_rows, token_rows, without_kid
from tests.support.certificates import authority
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.json_web_tokens import Kind

FILE = '[roles]\nviewer = ["*"]\n[oidc]\nissuer = "{issuer}"\nca = "{ca}"\naudience = "{audience}"\n'
Judge = Callable[[str], object]
"""Raises TokenRefusedError or LoginRefused."""


@pytest.fixture(params=["RSA", "EC"])
def issuer(request: pytest.FixtureRequest) -> Iterator[Issuer]:
    kind: Kind = request.param
    with Issuer.running(tls=True, kind=kind) as issuer:
        yield issuer


def judge_of(user: str, issuer: Issuer, directory: Path) -> Judge:
    if user == "broker":
        rules = TokenRules((AUDIENCE,), issuer.url, 30, "scope", "sub")
        keys = parse_key_set(json.dumps(issuer.jwks()).encode())
        return lambda token: check_web_token(token, keys, rules, time.time_ns() // 1_000_000)
    path = directory / "people.toml"
    path.write_text(FILE.format(issuer=issuer.url, ca=authority().write(directory), audience=AUDIENCE))
    path.chmod(0o600)
    settings = read_login_file(path)
    assert settings.oidc is not None
    return BearerTokens(settings, settings.oidc, AUDIENCE).person


def is_admitted(judge: Judge, row: Row) -> bool:
    assert isinstance(row.token, str)
    try:
        judge(row.token)
    except (TokenRefusedError, LoginRefused):
        return False
    return True


@pytest.mark.parametrize("user", ["broker", "service"])
def test_brokers_and_services_tell_the_same_tokens_apart(user: str, issuer: Issuer, tmp_path: Path) -> None:
    judge = judge_of(user, issuer, tmp_path)
    table = token_rows(issuer, issuer.keys[-1]) | stricter_rows(issuer)
    found = {name: is_admitted(judge, row) for name, row in table.items()}
    assert found == {name: row.is_admitted for name, row in table.items()}


@pytest.mark.parametrize("user", ["broker", "service"])
def test_a_token_without_kid_is_rejected_where_the_issuer_has_several_keys(
    user: str, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.rotate()
    judge = judge_of(user, issuer, tmp_path)
    assert is_admitted(judge, Row(issuer.token("alice"), True))
    for key in issuer.keys:
        assert not is_admitted(judge, Row(without_kid(issuer, key), False))
