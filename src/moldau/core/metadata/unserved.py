"""Records of `__cluster_metadata` that nothing here acts on, kept so that Apache Kafka finds them again (KIP-631, 900).

What is kept is what is in force, not every record that led to it: an ACL that was removed is gone, a token that was
renewed stands once. So it grows with what there is, and goes into snapshots as Kafka would write it.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from moldau.wire.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

_NAMES: tuple[tuple[type[msgspec.Struct], str], ...] = (
    (AccessControlEntryRecord, "ACL"),
    (UserScramCredentialRecord, "SCRAM credential"),
    (DelegationTokenRecord, "delegation token"),
)


class UnservedRecords:
    """One per fold. `take` gets every record of these kinds, in the order of the log."""

    def __init__(self) -> None:
        self._in_force: dict[Hashable, msgspec.Struct] = {}

    def take(self, record: msgspec.Struct) -> bool:
        """Whether the record is of a kind that is kept here. Removing what is not there changes nothing."""
        match record:
            case AccessControlEntryRecord():
                self._in_force["acl", record.id] = record
            case RemoveAccessControlEntryRecord():
                self._in_force.pop(("acl", record.id), None)
            case UserScramCredentialRecord():
                self._in_force["scram", record.mechanism, record.name] = record
            case RemoveUserScramCredentialRecord():
                self._in_force.pop(("scram", record.mechanism, record.name), None)
            case DelegationTokenRecord():
                self._in_force["token", record.token_id] = record
            case RemoveDelegationTokenRecord():
                self._in_force.pop(("token", record.token_id), None)
            case _:
                return False
        return True

    def records(self) -> tuple[msgspec.Struct, ...]:
        """What is in force, in the order in which it came."""
        return tuple(self._in_force.values())

    def scram_credentials(self) -> tuple[UserScramCredentialRecord, ...]:
        """In the order in which they came."""
        return tuple(one for one in self._in_force.values() if isinstance(one, UserScramCredentialRecord))

    def scram_credential(self, name: str, mechanism: int) -> msgspec.Struct | None:
        """The credential of a user, kept and not served; None if there is none. `mechanism`: as in the protocol."""
        return self._in_force.get(("scram", mechanism, name))

    def counts(self) -> dict[str, int]:
        """How many of each kind, by a name for people; without those there is nothing of."""
        found = {name: sum(isinstance(record, kind) for record in self._in_force.values()) for kind, name in _NAMES}
        return {name: count for name, count in found.items() if count}
