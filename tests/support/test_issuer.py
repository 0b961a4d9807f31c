from __future__ import annotations

import base64
import hashlib
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from tests.support.certificates import authority
from tests.support.issuer import ASSERTION, Client, Issuer
from tests.support.json_web_tokens import Forgery, SigningKey, signed


class _StaysHandler(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def _ask(url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Any:
    opener = build_opener(_StaysHandler, HTTPSHandler(context=ssl.create_default_context(cadata=authority().pem)))
    data = None if form is None else urlencode(form).encode()
    with opener.open(Request(url, data, headers or {}), timeout=20) as answer:
        return json.load(answer)


def _subject(issuer: Issuer, token: str) -> str:
    keys = KeySet.import_key_set(_ask(issuer.jwks_url))
    claims = jwt.decode(token, keys, algorithms=["ES256", "RS256"]).claims
    jwt.JWTClaimsRegistry(
        iss={"essential": True, "value": issuer.url},
        aud={"essential": True, "value": "kafka"},
        exp={"essential": True},
    ).validate(claims)
    return str(claims["sub"])


@pytest.mark.parametrize("kind", ["RSA", "EC"])
def test_a_client_gets_a_token_that_its_keys_prove(kind: Any) -> None:
    with Issuer.running(tls=True, kind=kind) as issuer:
        form = {"grant_type": "client_credentials", "client_id": "service", "client_secret": "service-secret"}
        assert _subject(issuer, _ask(issuer.token_url, form)["access_token"]) == "service"
        issuer.rotate("RSA")
        basic = base64.b64encode(b"service:service-secret").decode()
        answer = _ask(issuer.token_url, {"grant_type": "client_credentials"}, {"Authorization": f"Basic {basic}"})
        assert _subject(issuer, answer["access_token"]) == "service"
        with pytest.raises(HTTPError, match="401"):
            _ask(issuer.token_url, {**form, "client_secret": "another"})


def test_an_assertion_takes_the_place_of_a_secret() -> None:
    with Issuer.running() as issuer:
        key = SigningKey("RSA")
        issuer.clients["signer"] = Client(key=key)
        claims = {"iss": "signer", "sub": "signer", "aud": issuer.token_url, "exp": int(time.time()) + 60}
        form = {"grant_type": "client_credentials", "client_assertion_type": ASSERTION}
        answer = _ask(issuer.token_url, {**form, "client_assertion": signed(key, claims)})
        assert _subject(issuer, answer["access_token"]) == "signer"
        for wrong in (signed(SigningKey("RSA"), claims), signed(key, claims, {"alg": "ES256"}), "a.b.c", "x"):
            with pytest.raises(HTTPError, match="401"):
                _ask(issuer.token_url, {**form, "client_assertion": wrong})


def test_a_person_logs_in_with_a_code_and_its_proof() -> None:
    with Issuer.running() as issuer:
        verifier = "v" * 43
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {"client_id": "browser", "redirect_uri": "http://127.0.0.1:1/in", "state": "s", "nonce": "n"}
        login = {**asked, "code_challenge": challenge, "username": "alice", "password": "alice-password"}

        def code() -> str:
            with pytest.raises(HTTPError) as redirect:
                _ask(f"{issuer.url}/authorize", login)
            assert redirect.value.code == 302
            answer = parse_qs(urlsplit(redirect.value.headers["Location"]).query)
            assert answer["state"] == ["s"]
            return answer["code"][0]

        form = {"grant_type": "authorization_code", "client_id": "browser", "redirect_uri": asked["redirect_uri"]}
        answer = _ask(issuer.token_url, {**form, "code": code(), "code_verifier": verifier})
        assert _subject(issuer, answer["access_token"]) == "alice"
        who = {"Authorization": f"Bearer {answer['access_token']}"}
        assert _ask(f"{issuer.url}/userinfo", headers=who)["sub"] == "alice"
        with pytest.raises(HTTPError, match="400"):
            _ask(issuer.token_url, {**form, "code": code(), "code_verifier": "w" * 43})
        with pytest.raises(HTTPError, match="401"):
            _ask(f"{issuer.url}/authorize", {**login, "password": "another"})


@pytest.mark.parametrize("forgery", sorted(get_args(Forgery)))
def test_no_forgery_is_believed(forgery: Forgery) -> None:
    with Issuer.running() as issuer:
        assert _subject(issuer, issuer.token("alice")) == "alice"
        with pytest.raises((JoseError, ValueError)):
            _subject(issuer, issuer.token("alice", forgery=forgery))


def test_the_process_obeys(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.issuer_process", "--tls", "--directory", str(tmp_path)]
    done = subprocess.run(command, input='{"token": "bob"}\n', capture_output=True, text=True, check=True, timeout=60)
    told, token = (json.loads(line) for line in done.stdout.splitlines())
    assert "BEGIN CERTIFICATE" in Path(told["ca"]).read_text()
    assert len(token.split(".")) == 3
