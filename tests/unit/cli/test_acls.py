"""`moldau acls` and `moldau kafka-acls`, with a cluster whose clients are super users."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator

import pytest

from moldau.cli.main import main
from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.testing import Cluster

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
ORDERS = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """`run("acls", "list")` gives exit code, standard output and standard error."""
    with Cluster(settings=SETTINGS) as cluster:

        def call(*words: str) -> tuple[int, str, str]:
            where = ("--bootstrap-server", cluster.bootstrap_servers)
            code = main([words[0], *where, *words[1:]] if words[0].startswith("kafka-") else [*words, *where])
            printed = capsys.readouterr()
            return code, printed.out, printed.err

        yield call


def rows(run: Run, *words: str) -> list[tuple[str, ...]]:
    code, out, _ = run(*words, "--json")
    assert code == 0
    columns = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
    return [tuple(row[column] for column in columns) for row in json.loads(out)]


def test_acls_are_added_listed_explained_and_removed(run: Run) -> None:
    added = rows(run, "acls", "add", "ann", "--operation", "read", "--topic", "orders", "--host", "10.0.0.1")
    assert added == [("User:ann", "allow", "read", "topic", "orders", "literal", "10.0.0.1")]
    assert rows(run, "acls", "list") == added
    assert rows(run, "acls", "list", "--topic", "other") == []
    code, out, _ = run("acls", "explain", "ann", "describe", "--topic", "orders", "--host", "10.0.0.1")
    assert (code, "allow User:ann from 10.0.0.1 read on topic orders" in out) == (0, True)
    code, out, _ = run("acls", "explain", "ann", "write", "--topic", "orders", "--json")
    assert code == 1
    assert json.loads(out)["missing"] == ["moldau acls add User:ann --operation write --topic orders"]
    removing = ("acls", "remove", "ann", "--operation", "read", "--topic", "orders", "--host", "10.0.0.1")
    assert rows(run, *removing) == added
    code, _, err = run(*removing)
    assert (code, "no such ACL" in err) == (1, True)


def test_an_acl_that_denies_is_named(run: Run) -> None:
    rows(run, "acls", "add", "User:*", "--operation", "all", "--topic", "o", "--prefixed", "--deny")
    rows(run, "acls", "add", "ann", "--operation", "all", "--topic", "*")
    code, out, _ = run("acls", "explain", "ann", "read", "--topic", "orders")
    assert (code, "deny User:* from * all on prefixed topic o" in out) == (1, True)


def test_names_with_control_characters_are_kept_and_shown_escaped(run: Run) -> None:
    name, who = "a\x1b[2J\nb", "User:\x1b]0;x\x07"
    added = rows(run, "acls", "add", who, "--operation", "read", "--topic", name)
    assert [(row[0], row[4]) for row in added] == [(who, name)]
    assert rows(run, "acls", "list", "--topic", name) == added
    commands = (
        ("acls", "list"),
        ("acls", "explain", who, "read", "--topic", name),
        ("acls", "explain", who, "write", "--topic", name),
        ("kafka-acls", "--list"),
    )
    for words in commands:
        _, out, _ = run(*words)
        assert "a\\x1b[2J\\nb" in out
        assert "User:\\x1b]0;x\\x07" in out
        assert not set(out) & {"\x1b", "\x07"}
    assert rows(run, "acls", "remove", who, "--operation", "read", "--topic", name) == added


def test_a_role_is_the_rights_that_it_needs(run: Run) -> None:
    words = ("--topic", "orders", "--group", "etl")
    assert {row[2:5] for row in rows(run, "acls", "add", "ann", "--as", "consumer", *words)} == {
        ("read", "topic", "orders"),
        ("describe", "topic", "orders"),
        ("read", "group", "etl"),
    }
    copied = rows(run, "acls", "add", "etl", "--as", "copier", *words, "--to", "totals", "--transactional-id", "x")
    assert {row[2:5] for row in copied} == {
        ("read", "topic", "orders"),
        ("describe", "topic", "orders"),
        ("read", "group", "etl"),
        ("write", "topic", "totals"),
        ("describe", "topic", "totals"),
        ("create", "topic", "totals"),
        ("write", "transactional-id", "x"),
        ("describe", "transactional-id", "x"),
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ann", "--topic", "t"), "name an operation"),
        (("ann", "--operation", "read"), "name an operation"),
        (("ann", "--operation", "raed", "--topic", "t"), "did you mean read?"),
        (("ann", "--operation", "write", "--group", "g"), "write is not done to a group"),
        (("ann", "--as", "consumer", "--topic", "t"), "--as consumer wants --group"),
        (("ann", "--as", "producer", "--topic", "t", "--group", "g"), "a producer needs no --group"),
        (("ann", "--as", "producer", "--topic", "t", "--operation", "read"), "leave out --operation"),
        (("ann", "--operation", "read", "--topic", "t", "--to", "u"), "--to belongs to --as copier"),
    ],
)
def test_what_makes_no_acl_is_refused_in_a_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    code, _, err = run("acls", "add", *words)
    assert (code, sentence in err) == (1, True)
    assert rows(run, "acls", "list") == []


def test_kafka_acls_prints_what_kafkas_tool_prints(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    adding = ("kafka-acls", "--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders")
    entry = "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"
    assert run(*adding) == (0, f"Adding ACLs for resource `{ORDERS}`: \n \t{entry}\n\n", "")
    assert run(*adding) == (0, f"Acl (pattern={ORDERS}, entry={entry}) already exists.\n", "")
    listed = f"Current ACLs for resource `{ORDERS}`:\n\t{entry}\n\n"
    assert run("kafka-acls", "--list", "--topic", "orders") == (0, listed, "")
    told = f"ACLs for principal `User:ben`\nACLs for principal `User:ann`\n{listed}"
    assert run("kafka-acls", "--list", "--principal", "User:ben", "--principal", "User:ann") == (0, told, "")
    for answer, left in (("n\n", listed), ("Y\n", "")):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        code, out, _ = run("kafka-acls", "--remove", "--topic", "orders")
        assert (code, out) == (0, f"Are you sure you want to delete all ACLs for resource filter `{ORDERS}`? (y/n)\n")
        assert run("kafka-acls", "--list") == (0, left, "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--add", "--list"), "Command must include exactly one action: --list, --add, --remove. "),
        (("--add", "--allow-principal", "User:a"), "You must provide at least one resource: --topic <topic>"),
        (("--add", "--topic", "t"), "You must specify one of: --allow-principal, --deny-principal when trying to add"),
        (("--list", "--producer"), 'Option "[list]" can\'t be used with option "[producer]"'),
        (("--add", "--consumer", "--topic", "t"), "With --consumer you must specify a --topic and a --group and no"),
        (
            ("--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "ClusterAction"),
            "ResourceType TOPIC only supports operations [",
        ),
    ],
)
def test_kafka_acls_refuses_flags_in_kafkas_words(run: Run, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = run("kafka-acls", *words)
    assert (code, out, sentence in err) == (1, "", True)


def test_kafka_acls_tells_a_refusal_as_kafka_does(run: Run) -> None:
    code, out, _ = run("kafka-acls", "--add", "--topic", "t", "--allow-principal", "ann")
    told = "expected a string in format principalType:principalName but got ann"
    assert (code, out) == (1, f"Error while executing ACL command: {told}\n")
