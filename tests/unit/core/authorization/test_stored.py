"""The index of ACLs for filters gives the same ACLs as a check of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.core.authorization.filters import names_acl
from moldau.core.authorization.stored import StoredAcls
from moldau.wire.protocol.acls import Acl, AclFilter

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "a\x1b\n", "\x00"])
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1"])
ACLS = st.builds(
    Acl, st.integers(2, 4), NAMES, st.integers(3, 4), PRINCIPALS, HOSTS, st.integers(2, 5), st.integers(2, 3)
)
FILTERS = st.builds(
    AclFilter,
    st.integers(1, 4),
    st.none() | NAMES,
    st.integers(1, 4),
    st.none() | PRINCIPALS,
    st.none() | HOSTS,
    st.integers(1, 5),
    st.integers(1, 3),
)
CHANGES = st.lists(st.tuples(st.integers(0, 9), st.none() | ACLS), max_size=30)


def done(work: Iterator[Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@given(CHANGES, CHANGES, st.lists(FILTERS, min_size=1, max_size=5))
def test_a_filter_names_the_same_acls_with_the_index(
    before: list[tuple[int, Acl | None]], after: list[tuple[int, Acl | None]], filters: list[AclFilter]
) -> None:
    acls = StoredAcls()
    for changes in (before, after):
        for number, acl in changes:
            if acl is None:
                acls.pop(bytes((number,)), None)
            else:
                acls[bytes((number,))] = acl
        catalogue = done(acls.catalogue())
        for wanted in filters:
            named = [acl_id for acl in done(catalogue.named(wanted)) for acl_id in catalogue.ids[acl]]
            assert sorted(named) == sorted(acl_id for acl_id, acl in acls.items() if names_acl(wanted, acl))


def test_a_filter_with_a_name_a_principal_or_a_host_looks_at_few() -> None:
    acls = StoredAcls()
    for number in range(2_000):
        host = f"10.0.0.{number}" if number < 8 else "*"
        acls[number.to_bytes(16, "big")] = Acl(2, f"t{number}", 3, f"User:u{number}", host, 3, 3)
    catalogue = done(acls.catalogue())
    for wanted in (
        AclFilter(2, "t7"),
        AclFilter(2, "t7", 2),
        AclFilter(principal="User:u7"),
        AclFilter(host="10.0.0.7"),
    ):
        assert len(list(catalogue.named(wanted))) <= 1  # pauses: one for every few checked ACLs
