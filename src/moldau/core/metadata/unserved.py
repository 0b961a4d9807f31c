"""Records of `__cluster_metadata` that logins ask for, as Apache Kafka writes them and finds them again (KIP-631, 900).

What is kept is what is in force, not every record that led to it: a credential that was removed is gone, a token that
was renewed stands once. So it grows with what there is, and goes into snapshots as Kafka would write it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from moldau.wire.protocol.messages.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

_REMOVALS = (RemoveUserScramCredentialRecord, RemoveDelegationTokenRecord)


def unserved_key(record: msgspec.Struct) -> Hashable | None:
    """What `record` is about, if it is of a kind that is kept here: the same for what adds and for what removes."""
    match record:
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            return "scram", record.mechanism, record.name
        case DelegationTokenRecord() | RemoveDelegationTokenRecord():
            return "token", record.token_id
    return None


def is_of_user(key: Hashable) -> bool:
    """Whether what is kept under this key is a credential of a user."""
    return isinstance(key, tuple) and key[0] == "scram"


def kept_of(record: msgspec.Struct) -> msgspec.Struct | None:
    """The record that is in force after `record`; None where that removes one."""
    return None if isinstance(record, _REMOVALS) else record


class UnservedRecords(dict[Hashable, msgspec.Struct]):
    """What is in force, by `unserved_key`, in the order in which it came. One for each image."""

    def scram_credentials(self) -> tuple[UserScramCredentialRecord, ...]:
        """The credentials that are kept, in the order in which they came."""
        return tuple(one for one in self.values() if isinstance(one, UserScramCredentialRecord))

    def scram_credential(self, name: str, mechanism: int) -> msgspec.Struct | None:
        """The credential of a user; None if there is none. `mechanism`: as in the protocol."""
        return self.get(("scram", mechanism, name))

    def delegation_tokens(self) -> tuple[DelegationTokenRecord, ...]:
        """The tokens that are kept, expired ones too, in the order in which they came."""
        return tuple(one for one in self.values() if isinstance(one, DelegationTokenRecord))

    def delegation_token(self, token_id: str) -> DelegationTokenRecord | None:
        """The token of this id; None if there is none."""
        found = self.get(("token", token_id))
        return found if isinstance(found, DelegationTokenRecord) else None


def records_in_force(records: Iterable[msgspec.Struct]) -> UnservedRecords:
    """What is in force after `records`, some of which may be of other kinds."""
    found = UnservedRecords()
    for record in records:
        key, kept = unserved_key(record), kept_of(record)
        if key is not None and kept is not None:
            found[key] = kept
        elif key is not None:
            found.pop(key, None)
    return found
