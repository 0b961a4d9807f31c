"""Programs that authenticate in each request."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path

import pytest
from starlette.requests import Request

from moldau.products.service.admission import Refusal
from moldau.products.service.logins.machines import (
    MAX_MACHINES,
    MAX_TRIES,
    MAX_WAITING,
    SLOW_S,
    Callers,
    admit_callers,
    only_metrics,
    read_machines,
)
from moldau.products.service.logins.passwords import KnownPasswords
from moldau.products.service.logins.settings import LoginFileError, read_login_file
from moldau.products.service.logins.source import LoginRefused, NoAnswer
from moldau.products.service.people import NOBODY, How, Person, Role
from moldau.transport.http_authorization import new_secret

SECRET, KEPT = new_secret()
OTHER, OTHER_KEPT = new_secret()
FILE = f"""
[machines.prometheus]
role = "viewer"
sha256 = "{KEPT}"

[machines.builder]
subjects = {{"orders-" = "editor"}}
sha256 = ["{OTHER_KEPT}", "{new_secret()[1]}"]
"""


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def asking(*authorization: str, method: str = "GET", path: str = "/subjects", **headers: str) -> Request:
    pairs = [(b"host", b"registry:1"), *((b"authorization", each.encode("latin-1")) for each in authorization)]
    pairs += [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs, "query_string": b"", "scheme": "https"}
    return Request(scope | {"client": ("10.0.0.7", 1), "server": ("registry", 1), "root_path": ""})


def callers_of(tmp_path: Path, text: str = FILE, passwords: KnownPasswords | None = None) -> Callers:
    path = tmp_path / "people.toml"
    path.write_text(text)
    path.chmod(0o600)
    return Callers(read_machines(read_login_file(path)), passwords)


def found(callers: Callers, *authorization: str) -> Person | int | None:
    """The user of a request, or the status of a rejection."""
    answer = asyncio.run(callers(asking(*authorization)))
    return answer.status if isinstance(answer, Refusal) else answer


def test_a_machine_says_its_secret_by_basic_or_bearer(tmp_path: Path) -> None:
    callers = callers_of(tmp_path)
    prometheus = Person("Machine:prometheus", Role.VIEWER, How.BEARER)
    assert found(callers, f"Bearer {SECRET}") == prometheus
    by_name = found(callers, basic("prometheus", SECRET))
    assert isinstance(by_name, Person)
    assert (by_name.principal, by_name.how) == ("Machine:prometheus", How.BASIC)
    builder = found(callers, basic("builder", OTHER))
    assert isinstance(builder, Person)
    assert (builder.role, builder.role_on("orders-value")) == (Role.NOBODY, Role.EDITOR)
    assert found(callers) is None


@pytest.mark.parametrize(
    "headers",
    [
        (basic("prometheus", OTHER),),
        (basic("builder", SECRET),),
        (basic("prometheus", KEPT),),
        (basic("Prometheus", SECRET),),
        (basic("", SECRET),),
        (basic("prometheus", ""),),
        (f"Bearer {KEPT}",),
        ("Bearer ",),
        ("Bearer \xe4",),
        (f"Token {SECRET}",),
        ("Basic @@@",),
        ("Basic " + base64.b64encode(b"\xff\xfe:x").decode(),),
        ("Basic " + base64.b64encode(b"no colon").decode(),),
        (f"Bearer {SECRET}", f"Bearer {SECRET}"),
        ("Bearer " + "a" * 20_000,),
    ],
)
def test_whoever_is_not_known_gets_401(tmp_path: Path, headers: tuple[str, ...]) -> None:
    answer = asyncio.run(callers_of(tmp_path)(asking(*headers)))
    assert isinstance(answer, Refusal)
    assert answer.status == 401
    assert dict(answer.headers) == {"www-authenticate": 'Basic realm="moldau", charset="UTF-8"'}
    assert SECRET not in repr(answer)


def test_wrong_passwords_wait_and_a_known_one_goes_on(tmp_path: Path) -> None:
    tried: list[str] = []

    def check(name: str, password: str) -> Person:
        tried.append(password)
        if password != "right":
            raise LoginRefused("wrong", is_wrong=True)
        return Person(f"User:{name}", Role.VIEWER, How.BASIC)

    callers = callers_of(tmp_path, passwords=KnownPasswords(check))
    right = found(callers, basic("ann", "right"))
    assert isinstance(right, Person)
    statuses = [found(callers, basic("ann", f"w{number}")) for number in range(1_000)]
    assert set(statuses) == {401, 429}
    assert len(tried) < 20
    assert found(callers, basic("ann", "right")) == right
    assert found(callers, f"Bearer {SECRET}") is not None


def test_a_cluster_that_does_not_answer_is_503(tmp_path: Path) -> None:
    def check(name: str, password: str) -> Person:
        raise NoAnswer("later")

    callers = callers_of(tmp_path, passwords=KnownPasswords(check))
    assert [found(callers, basic("ann", "right")) for _ in range(20)] == [503] * 20


def test_guesses_that_a_broker_answers_late_are_bounded(tmp_path: Path) -> None:
    now_s = [0.0]

    def check(name: str, password: str) -> Person:
        now_s[0] += SLOW_S
        raise NoAnswer("later")

    known = KnownPasswords(check, lambda: now_s[0])
    path = tmp_path / "people.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    callers = Callers(read_machines(read_login_file(path)), known, clock=lambda: now_s[0])
    statuses = [found(callers, basic("ann", "guess")) for _ in range(100)]
    assert statuses[:5] == [503] * 5
    assert statuses.count(429) > 80


def test_the_wait_for_a_place_is_no_wrong_login(tmp_path: Path) -> None:
    """The first logins are slow to be rejected; the next ones are answered at once that the cluster is silent."""
    now_s, asked, all_are_slow = [0.0], [], threading.Barrier(MAX_TRIES)

    def check(name: str, password: str) -> Person:
        asked.append(name)
        if name == "slow":
            now_s[0] += SLOW_S
            all_are_slow.wait(60)
            raise LoginRefused("wrong", is_wrong=True)
        raise NoAnswer("later")

    path = tmp_path / "people.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    callers = Callers(read_machines(read_login_file(path)), KnownPasswords(check), clock=lambda: now_s[0])

    async def act() -> list[Person | Refusal | None]:
        requests = [asking(basic(name, "password")) for name in (*["slow"] * MAX_TRIES, *["ann"] * MAX_WAITING)]
        return await asyncio.gather(*(callers(request) for request in requests))

    statuses = [each.status if isinstance(each, Refusal) else 0 for each in asyncio.run(act())]
    assert statuses == [401] * MAX_TRIES + [503] * MAX_WAITING
    assert found(callers, basic("ann", "password")) == 503  # after MAX_TRIES failures, not after all
    assert asked.count("ann") == MAX_WAITING + 1


def test_a_service_without_pages_asks_who_it_is(tmp_path: Path) -> None:
    admit = admit_callers(callers_of(tmp_path))

    def status(request: Request, needs: Role = Role.VIEWER) -> int | Person:
        answer = asyncio.run(admit(request, needs))
        return answer.status if isinstance(answer, Refusal) else answer

    bearer = f"Bearer {SECRET}"
    assert status(asking()) == 401
    assert status(asking(), Role.NOBODY) == NOBODY
    assert isinstance(status(asking(bearer, method="POST")), Person)
    assert isinstance(status(asking(bearer, method="POST", origin="https://registry:1")), Person)
    assert status(asking(bearer, method="POST", origin="https://elsewhere")) == 403
    assert status(asking(bearer, sec_fetch_site="cross-site", sec_fetch_mode="cors")) == 403


def test_machines_read_the_metrics_alone_of_a_service_with_pages(tmp_path: Path) -> None:
    find = only_metrics(callers_of(tmp_path))
    assert isinstance(asyncio.run(find(asking(f"Bearer {SECRET}", path="/metrics"))), Person)
    refused = asyncio.run(find(asking(f"Bearer {SECRET}", path="/topics")))
    assert isinstance(refused, Refusal)
    assert refused.status == 403


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('[machines.p]\nrole = "viewer"', "sha256 must be"),
        (f'[machines.p]\nrole = "viewer"\nsha256 = "{KEPT[:-1]}"', "sha256 must be"),
        (f'[machines.p]\nrole = "root"\nsha256 = "{KEPT}"', "must be viewer, editor or admin"),
        (f'[machines.p]\nrole = "nobody"\nsha256 = "{KEPT}"', "must be viewer, editor or admin"),
        (f'[machines.p]\npassword = "secret"\nsha256 = "{KEPT}"', "takes role, subjects and sha256"),
        (f'[machines."p q"]\nsha256 = "{KEPT}"', "letters, digits"),
        (f'[machines.p]\nsubjects = ["a"]\nsha256 = "{KEPT}"', "must be like"),
        ("\n".join(f'[machines.m{n}]\nsha256 = "{KEPT}"' for n in range(MAX_MACHINES + 1)), "more than 1000"),
    ],
    ids=range(8),
)
def test_a_file_that_is_wrong_is_told_without_its_secrets(tmp_path: Path, table: str, told: str) -> None:
    with pytest.raises(LoginFileError, match=told) as refused:
        callers_of(tmp_path, table)
    assert "secret" not in str(refused.value)
