"""Decisions by ACLs: each test is one of Kafka's rules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial

import pytest

from moldau.core.authorization.authorizer import Decision, Rule, StandardAuthorizer
from moldau.core.authorization.settings import parse_super_users
from moldau.errors import KafkaError
from moldau.types import Uuid
from moldau.wire.protocol.acls import Acl, AclOperation, AclPatternType, AclPermission, AclResourceType

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = AclPatternType.LITERAL, AclPatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALL, READ, WRITE, DELETE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


@cache
def crowded_to_the_end() -> StandardAuthorizer:
    """Made once; a test that changes it changes it back."""
    return crowded(100_000)


def an_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def an_acl(
    name: str = "t",
    operation: int = READ,
    *,
    who: str = "User:ann",
    host: str = "*",
    permission: int = ALLOW,
    pattern: int = LITERAL,
    kind: int = TOPIC,
) -> Acl:
    return Acl(int(kind), name, int(pattern), who, host, int(operation), int(permission))


def with_acls(*acls: Acl, super_users: tuple[str, ...] = (), allow_without_acls: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(super_users, allow_without_acls=allow_without_acls)
    authorizer.change({an_id(number): acl for number, acl in enumerate(acls)})
    return authorizer


def may(
    authorizer: StandardAuthorizer,
    operation: int = READ,
    name: str = "t",
    *,
    who: str = "User:ann",
    host: str = "10.0.0.1",
    kind: int = TOPIC,
) -> bool:
    decision = authorizer.decide(who, host, operation, kind, name)
    assert authorizer.authorize(who, host, operation, kind, name) is decision.is_allowed
    assert authorizer.authorize(who, host, operation, kind, name.encode()) is decision.is_allowed
    return decision.is_allowed


def test_without_an_acl_nobody_may_anything() -> None:
    assert with_acls().decide("User:ann", "h", READ, TOPIC, "t") == Decision(False, Rule.NO_ACL_FOUND)


def test_a_literal_acl_holds_for_its_name_kind_and_operation_alone() -> None:
    authorizer = with_acls(an_acl())
    assert may(authorizer)
    assert not may(authorizer, name="t2")
    assert not may(authorizer, kind=GROUP)
    assert not may(authorizer, WRITE)
    assert not may(authorizer, who="User:ben")
    assert not may(authorizer, who="Group:ann")


def test_a_prefixed_acl_holds_for_each_name_that_begins_so() -> None:
    authorizer = with_acls(an_acl("ab", pattern=PREFIXED))
    assert [may(authorizer, name=name) for name in ("a", "ab", "abc", "b", "xab")] == [False, True, True, False, False]


def test_the_name_star_holds_for_every_resource_and_as_a_prefix_for_itself() -> None:
    assert may(with_acls(an_acl("*")), name="anything")
    assert not may(with_acls(an_acl("*", pattern=PREFIXED)), name="anything")
    assert may(with_acls(an_acl("*", pattern=PREFIXED)), name="*thing")


def test_the_name_star_holds_for_no_other_name_that_begins_so_as_in_kafka() -> None:
    assert may(with_acls(an_acl("*")), name="*")
    assert not may(with_acls(an_acl("*")), name="*x")
    assert may(with_acls(an_acl("*", permission=DENY), allow_without_acls=True), name="*x")


def test_everybody_is_the_user_star() -> None:
    authorizer = with_acls(an_acl(who="User:*"))
    assert may(authorizer, who="User:whoever")
    assert may(authorizer, who="Group:whatever")
    assert not may(with_acls(an_acl(who="Group:*")), who="Group:ann")


@pytest.mark.parametrize("denied", [an_acl(permission=DENY, operation=ALL), an_acl("*", permission=DENY)])
@pytest.mark.parametrize("who", ["User:ann", "User:*"])
def test_one_acl_that_denies_outweighs_all_that_allow(denied: Acl, who: str) -> None:
    denied = Acl(denied.resource_type, denied.name, denied.pattern_type, who, *(denied.host, denied.operation, DENY))
    authorizer = with_acls(an_acl(), an_acl("*"), an_acl(who="User:*"), denied)
    assert not may(authorizer)
    assert authorizer.decide("User:ann", "h", READ, TOPIC, "t") == Decision(False, Rule.ACL, denied)


def test_a_host_is_one_address_or_all() -> None:
    authorizer = with_acls(an_acl(host="10.0.0.1"))
    assert may(authorizer, host="10.0.0.1")
    assert not may(authorizer, host="10.0.0.2")


def test_a_host_may_be_a_network() -> None:
    authorizer = with_acls(an_acl(host="10.0.0.0/30"), an_acl(host="2001:db8::/32", operation=WRITE))
    assert [may(authorizer, host=f"10.0.0.{last}") for last in (0, 3, 4)] == [True, True, False]
    assert may(authorizer, WRITE, host="2001:db8::7")
    assert not may(authorizer, WRITE, host="2001:db9::7")
    assert not may(authorizer, WRITE, host="10.0.0.1")


def test_an_ipv6_host_is_compared_in_its_long_form_as_in_java() -> None:
    assert may(with_acls(an_acl(host="0:0:0:0:0:0:0:1")), host="::1")
    assert not may(with_acls(an_acl(host="::1")), host="::1")
    assert may(with_acls(an_acl(host="10.0.0.1")), host="::ffff:10.0.0.1")


@pytest.mark.parametrize("operation", [READ, WRITE, DELETE, ALTER, DESCRIBE, ALL])
def test_describe_is_implied_by_what_cannot_be_done_blindly(operation: AclOperation) -> None:
    assert may(with_acls(an_acl(operation=operation)), DESCRIBE)


def test_describe_is_not_implied_by_other_rights() -> None:
    assert not may(with_acls(an_acl(operation=AclOperation.CREATE)), DESCRIBE)
    assert not may(with_acls(an_acl(operation=ALTER_CONFIGS)), DESCRIBE)


def test_describe_configs_is_implied_by_alter_configs_alone() -> None:
    assert may(with_acls(an_acl(operation=ALTER_CONFIGS)), DESCRIBE_CONFIGS)
    assert not may(with_acls(an_acl(operation=ALTER)), DESCRIBE_CONFIGS)


def test_a_denied_operation_denies_what_it_implies_nothing() -> None:
    authorizer = with_acls(an_acl(operation=WRITE), an_acl(permission=DENY))
    assert may(authorizer, DESCRIBE)
    assert not may(authorizer, READ)


def test_super_users_may_all_whatever_the_acls_say() -> None:
    authorizer = with_acls(an_acl("*", ALL, permission=DENY, who="User:*"), super_users=("User:root",))
    assert may(authorizer, who="User:root")
    assert authorizer.decide("User:root", "h", READ, TOPIC, "t").rule is Rule.SUPER_USER
    assert authorizer.authorize_any("User:root", "h", WRITE, TOPIC)


def test_all_may_what_no_acl_is_about_where_the_setting_says_so() -> None:
    authorizer = with_acls(an_acl(), allow_without_acls=True)
    assert may(authorizer, name="other", who="User:ben")
    assert not may(authorizer, who="User:ben")
    assert authorizer.decide("User:ben", "h", READ, TOPIC, "t").rule is Rule.NO_ACL_HOLDS
    assert not may(with_acls(an_acl("t", pattern=PREFIXED), allow_without_acls=True), name="t2", who="User:ben")


def test_a_changed_acl_is_in_force_at_once() -> None:
    authorizer = with_acls(an_acl())
    assert may(authorizer)
    authorizer.change({an_id(7): an_acl(permission=DENY)})
    assert not may(authorizer)
    authorizer.change({an_id(7): None})
    assert may(authorizer)
    authorizer.change({an_id(0): None})
    assert not may(authorizer)
    assert authorizer.decide("User:ann", "h", READ, TOPIC, "t").rule is Rule.NO_ACL_FOUND
    assert not len(authorizer)


def test_an_acl_of_two_ids_is_gone_with_the_second() -> None:
    authorizer = with_acls(an_acl(), an_acl())
    authorizer.change({an_id(0): None})
    assert may(authorizer)
    authorizer.change({an_id(1): None})
    assert not may(authorizer)


def test_an_acl_of_an_operation_that_nobody_knows_grants_nothing() -> None:
    authorizer = with_acls(an_acl(operation=35), an_acl(operation=-93), an_acl(operation=99, host="10.0.0.1"))
    assert not may(authorizer)
    authorizer.change({an_id(0): None, an_id(1): None, an_id(2): None})
    assert authorizer.decide("User:ann", "h", READ, TOPIC, "t").rule is Rule.NO_ACL_FOUND


def test_super_users_stand_between_semicolons() -> None:
    assert parse_super_users("User:a; User:CN=x,O=y ;;") == ("User:a", "User:CN=x,O=y")
    with pytest.raises(KafkaError, match="principalType:principalName but got ben"):
        parse_super_users("User:a;ben")


def any_topic(*acls: Acl, host: str = "10.0.0.1") -> bool:
    authorizer = with_acls(*acls)
    first = authorizer.authorize_any("User:ann", host, WRITE, TOPIC)
    assert authorizer.authorize_any("User:ann", host, WRITE, TOPIC) is first
    return first


def test_some_resource_may_be_written_to_by_any_acl_that_no_other_takes_back() -> None:
    assert any_topic(an_acl(operation=WRITE))
    assert any_topic(an_acl("t", ALL, pattern=PREFIXED))
    assert not any_topic(an_acl(operation=READ))
    assert not any_topic(an_acl(operation=WRITE), an_acl(operation=WRITE, permission=DENY))
    assert not any_topic(an_acl("top", WRITE), an_acl("to", WRITE, pattern=PREFIXED, permission=DENY))
    assert any_topic(an_acl("t", WRITE, pattern=PREFIXED), an_acl("to", WRITE, pattern=PREFIXED, permission=DENY))
    assert not any_topic(an_acl(operation=WRITE), an_acl("*", WRITE, permission=DENY))
    assert not any_topic(an_acl(operation=WRITE, host="10.0.0.2"))
    assert any_topic(an_acl(operation=WRITE, host="10.0.0.0/8"))


def test_until_the_acls_are_known_super_users_alone_may_do_anything() -> None:
    authorizer = StandardAuthorizer(["User:root"], allow_without_acls=True)
    assert authorizer.authorize("User:root", "h", READ, TOPIC, "t")
    assert not authorizer.authorize("User:ann", "h", READ, TOPIC, "t")
    authorizer.change({})
    assert authorizer.authorize("User:ann", "h", READ, TOPIC, "t")


def steps_of(work: Callable[[], object]) -> int:
    """The number of functions, of Python and of C, that it calls."""
    steps = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return steps


def crowded(count: int) -> StandardAuthorizer:
    """With that many ACLs of every kind, a tenth of which are ann's."""
    acls = []
    for number in range(count):
        who = "User:ann" if number % 10 == 0 else f"User:u{number % 997}"
        host = ("*", "10.0.0.1", "192.168.0.0/16")[number % 3]
        pattern = PREFIXED if number % 4 == 0 else LITERAL
        permission = DENY if number % 5 == 0 else ALLOW
        acls.append(an_acl(f"topic-{number:06}", who=who, host=host, permission=permission, pattern=pattern))
    return with_acls(*acls, an_acl("mine"), an_acl("dev-", WRITE, pattern=PREFIXED), an_acl("*", DESCRIBE))


@pytest.mark.parametrize("name", ["mine", "dev-x", "topic-000010", "absent", "t" * 200])
def test_a_decision_takes_as_many_steps_with_100000_acls_as_with_100(name: str) -> None:
    few, many = crowded(100), crowded_to_the_end()
    assert len(many) == 100_003
    for operation in (READ, WRITE, DESCRIBE):
        ours = steps_of(partial(many.decide, "User:ann", "h", operation, TOPIC, name))
        theirs = steps_of(partial(few.decide, "User:ann", "h", operation, TOPIC, name))
        assert ours <= theirs + 10
        assert ours < 100
    assert steps_of(lambda: many.authorize_any("User:u1", "h", WRITE, TOPIC)) < 1_000  # its own 90 ACLs


def test_a_change_among_100000_acls_takes_few_steps_and_is_in_force_at_once() -> None:
    many = crowded_to_the_end()
    assert not may(many, READ, "new")
    added, removed = {an_id(200_000): an_acl("new")}, {an_id(200_000): None}
    assert steps_of(lambda: many.change(added)) < 100
    assert may(many, READ, "new")
    assert steps_of(lambda: many.change(removed)) < 100
    assert not may(many, READ, "new")


@pytest.mark.parametrize("name", ["\x00", "a\x1b[2J\n", "\r", "\x7f", "\u202e", " "])
def test_a_name_with_control_characters_is_a_name_as_any(name: str) -> None:
    authorizer = with_acls(an_acl(name), an_acl(f"{name}p", pattern=PREFIXED, permission=DENY))
    assert may(authorizer, READ, name)
    assert not may(authorizer, READ, f"{name}p{name}")
    assert not may(authorizer, READ, f"{name}q")
    assert not may(authorizer, READ, "")


def test_what_is_taken_back_leaves_the_rest_in_force() -> None:
    hosts = ("*", "10.0.0.1", "10.0.0.0/30", "10.0.0.1/30", "nobody/8")
    acls = [an_acl(host=host, operation=operation) for host in hosts for operation in (READ, WRITE)]
    acls += [an_acl("t", pattern=PREFIXED, permission=DENY, operation=operation) for operation in (ALTER, DELETE)]
    for gone in range(len(acls)):
        authorizer = with_acls(*acls)
        authorizer.change({an_id(gone): None})
        fresh = with_acls(*acls[:gone], *acls[gone + 1 :])
        for operation in (READ, WRITE, ALTER, DELETE):
            for host in ("10.0.0.1", "10.0.0.2", "10.0.0.9"):
                asked = ("User:ann", host, operation, TOPIC, "t")
                assert authorizer.decide(*asked).is_allowed is fresh.decide(*asked).is_allowed
        authorizer.change({an_id(number): None for number in range(len(acls))})
        assert authorizer.decide("User:ann", "h", READ, TOPIC, "t").rule is Rule.NO_ACL_FOUND
