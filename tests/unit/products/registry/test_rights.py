"""The rights of users on subjects."""

from __future__ import annotations

import pytest

from moldau.products.registry.core.records import SchemaValue
from moldau.products.registry.core.refusals import Refusal
from moldau.products.registry.core.rights import Operation, Rights
from moldau.products.service.people import How, Person, Role

NOBODY, VIEWER, EDITOR, ADMIN = Role
SALES = Rights(NOBODY, (("sales-", VIEWER), ("sales-eu-", EDITOR), ("sales-eu-test-", ADMIN)))


def allowed(rights: Rights, subject: str | None) -> set[str]:
    return {operation.name for operation in Operation if rights.may(operation, subject)}


@pytest.mark.parametrize(
    ("role", "operations"),
    [
        (NOBODY, set()),
        (VIEWER, {"READ"}),
        (EDITOR, {"READ", "WRITE", "DELETE"}),
        (ADMIN, {"READ", "WRITE", "DELETE", "DELETE_FOR_GOOD", "SET_LEVEL"}),
    ],
)
def test_a_role_may_what_those_below_it_may(role: Role, operations: set[str]) -> None:
    for rights, subject in ((Rights(role), "any"), (Rights(role), None), (Rights(NOBODY, (("a", role),)), "any")):
        assert allowed(rights, subject) == operations


def test_roles_of_prefixes_add_up_and_take_nothing_away() -> None:
    assert [SALES.role(subject) for subject in ("sales", "sales-us", "sales-eu-x", "sales-eu-test-x")] == list(Role)
    lower_within = Rights(VIEWER, (("sales-", EDITOR), ("sales-eu-", VIEWER)))
    assert lower_within.role("sales-eu-x") is EDITOR
    assert lower_within.role("other") is VIEWER


def test_a_prefix_gives_nothing_on_all_subjects_together() -> None:
    assert allowed(SALES, None) == set()
    assert not allowed(Rights(VIEWER, (("sales-", ADMIN),)), None) & {"WRITE", "SET_LEVEL"}


@pytest.mark.parametrize("subject", ["", "SALES-x", " sales-x", "x-sales-", ":.other:sales-x", "sales"])
def test_what_only_looks_like_the_prefix_is_not_covered(subject: str) -> None:
    assert SALES.role(subject) is NOBODY


def test_lists_have_what_may_be_read() -> None:
    assert SALES.readable(["a", "sales-1", "sales-eu-1", "z"]) == ["sales-1", "sales-eu-1"]
    assert Rights(NOBODY).readable(["a"]) == []


def test_an_id_is_read_by_whom_one_of_its_subjects_is() -> None:
    places = [SchemaValue(subject, 1, 7, "{}") for subject in ("a", "sales-1", "z")]
    assert [value.subject for value in SALES.readable_places(places)] == ["sales-1"]
    assert SALES.readable_places([]) == []
    with pytest.raises(Refusal) as refused:
        SALES.readable_places(places[:1])
    assert (refused.value.code, "'a'" in str(refused.value)) == (40301, False)


def test_a_refusal_says_what_is_denied_in_confluent_s_words() -> None:
    with pytest.raises(Refusal) as refused:
        SALES.require(Operation.WRITE, "sales-us")
    assert refused.value.code == 40301
    assert str(refused.value) == "User is denied operation Write on Subject: sales-us"


def test_rights_are_those_of_the_person() -> None:
    person = Person("User:ann", VIEWER, How.BASIC, subjects=(("sales-", EDITOR),))
    for subject in (None, "sales-1", "other"):
        assert Rights.of(person).role(subject) is person.role_on(subject)
