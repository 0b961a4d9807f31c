"""`moldau tokens` and `moldau kafka-delegation-tokens`, on a cluster with logins and ACLs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster, allow

USERS = {"ann": "ann-secret", "bob": "bob-secret", "eve": "eve-secret"}
SETTINGS = {"delegation.token.secret.key": "sesame"}
ACLS = (allow("ann", "describe", topic="orders"),)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security="sasl_plaintext", users=USERS, acls=ACLS, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("ann", "tokens", "list")` gives exit code, standard output and standard error; user None: the super user."""

    def call(user: str | None, *words: str) -> tuple[int, str, str]:
        config = tmp_path / "client.properties"
        properties = cluster.client_properties(user)
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        where = ("--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(config))
        code = main([words[0], *where, *words[1:]] if words[0].startswith("kafka-") else [*words, *where])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def created(run: Run, user: str | None, *words: str) -> dict[str, str]:
    code, out, err = run(user, "tokens", "create", *words, "--json")
    assert (code, err) == (0, "")
    token: dict[str, str] = json.loads(out)
    return token


def test_the_settings_of_a_new_token_log_in_as_its_owner(run: Run, cluster: Cluster, tmp_path: Path, capsys) -> None:
    code, out, _ = run("ann", "tokens", "create")
    assert code == 0
    config = tmp_path / "token.properties"
    config.write_text(out)
    where = ("-b", cluster.bootstrap_servers, "--command-config", str(config))
    assert main(["topics", "list", *where]) == 0
    capsys.readouterr()
    # a token cannot create tokens
    assert main(["tokens", "create", *where]) == 1
    assert "not allowed on PLAINTEXT/1-way SSL channels and on delegation token" in capsys.readouterr().err
    assert main(["produce", "orders", "x", *where]) == 1
    assert "librdkafka, which this needs, cannot log in by one" in capsys.readouterr().err


def test_a_renewer_renews_and_expires_and_a_stranger_does_not(run: Run) -> None:
    token = created(run, "ann", "--renewer", "bob", "--max-lifetime", "1h")
    words = (token["token_id"], "--json")
    code, out, _ = run("bob", "tokens", "renew", *words, "--for", "10m")
    assert (code, json.loads(out)["token_id"]) == (0, token["token_id"])
    code, _, err = run("eve", "tokens", "renew", *words)
    assert (code, "unknown token" in err) == (1, True)
    assert run("bob", "tokens", "expire", *words)[0] == 0
    code, _, err = run("ann", "tokens", "renew", *words)
    assert (code, "unknown token" in err) == (1, True)


def test_a_list_has_no_secret_and_only_what_one_may_see(run: Run) -> None:
    token = created(run, "ann")
    code, out, _ = run("ann", "tokens", "list", "--json")
    assert code == 0
    assert token["token_id"] in [row["token_id"] for row in json.loads(out)]
    assert token["hmac"] not in out
    code, out, err = run("eve", "tokens", "list")
    assert (code, out, err.strip()) == (0, "", "no token is there that you may see")
    code, out, _ = run(None, "tokens", "list", "--owner", "ann")
    assert token["token_id"] in out


def test_a_token_of_another_owner_takes_a_right_that_the_refusal_names(run: Run) -> None:
    code, _, err = run("eve", "tokens", "create", "--owner", "ann")
    assert code == 1
    (line,) = re.findall(r"An administrator allows it: moldau (.*)", err)
    assert line == "acls add User:eve --operation create-tokens --user User:ann"
    assert run(None, *line.split())[0] == 0
    token = created(run, "eve", "--owner", "ann")
    assert (token["owner"], token["requester"]) == ("User:ann", "User:eve")
    for owner in ("ann", "eve"):  # the requester of a token sees it, but does not renew it
        assert token["token_id"] in run("eve", "tokens", "list", "--owner", owner)[1]
    code, _, err = run("eve", "tokens", "renew", token["token_id"])
    assert (code, "Specified Principal is not valid Owner/Renewer." in err) == (1, True)
    assert run(None, "acls", "remove", *line.split()[2:])[0] == 0


def test_what_is_no_principal_is_refused(run: Run) -> None:
    for words in (("create", "--owner", "User:"), ("create", "--renewer", ":ann"), ("list", "--owner", "User:")):
        code, _, err = run("ann", "tokens", *words)
        assert (code, "expected a string in format principalType:principalName" in err) == (1, True)


def test_kafkas_tool_makes_renews_and_ends_a_token(run: Run) -> None:
    tool = "kafka-delegation-tokens"
    code, out, _ = run("ann", tool, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert code == 0
    asked, made, _, _, _, row, *_ = out.split("\n")
    assert asked == "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
    token_id, hmac, *principals = row.split()[:5]
    assert made == f"Created delegation token with tokenId : {token_id}"
    assert principals == ["User:ann", "User:ann", "[User:bob]"]
    code, out, _ = run("bob", tool, "--renew", "--hmac", hmac, "--renew-time-period", "60000")
    assert code == 0
    assert re.search(r"\nCompleted renew operation. New expiry date : \d{4}-\d\d-\d\dT\d\d:\d\d$", out)
    code, out, _ = run(None, tool, "--describe", "--owner-principal", "User:ann")
    assert token_id in out
    code, _, err = run("eve", tool, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    assert code == 1
    assert "DelegationTokenOwnerMismatchException: Specified Principal is not valid Owner/Renewer." in err
    assert run("ann", tool, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")[0] == 0
    code, _, err = run("ann", tool, "--renew", "--hmac", hmac.rstrip("="), "--renew-time-period", "-1")
    assert code == 1
    assert "DelegationTokenNotFoundException: Delegation Token is not found on server." in err


@pytest.mark.parametrize("hmac", ["!!", "a", "A" * 4_000])
def test_kafkas_tool_refuses_what_is_no_hmac(run: Run, hmac: str) -> None:
    code, _, err = run("ann", "kafka-delegation-tokens", "--renew", "--hmac", hmac, "--renew-time-period", "-1")
    assert (code, "--hmac is no HMAC in base64" in err) == (1, True)
