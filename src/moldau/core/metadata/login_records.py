"""SCRAM credentials and delegation tokens in the metadata, as Apache Kafka stores them (KIP-631, 900).

Only the records in force are kept, not their history: no removed credential, and each renewed token once. Snapshots
contain them as Kafka would write them.
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


def login_key(record: msgspec.Struct) -> Hashable | None:
    """The key of a credential or token record, the same for its removal. None for other records."""
    match record:
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            return "scram", record.mechanism, record.name
        case DelegationTokenRecord() | RemoveDelegationTokenRecord():
            return "token", record.token_id
    return None


def is_of_user(key: Hashable) -> bool:
    """Whether the key is that of a SCRAM credential."""
    return isinstance(key, tuple) and key[0] == "scram"


def in_force_after(record: msgspec.Struct) -> msgspec.Struct | None:
    """The record in force after `record`. None: it removes one."""
    return None if isinstance(record, _REMOVALS) else record


class LoginRecords(dict[Hashable, msgspec.Struct]):
    """The records in force by `login_key`, oldest first. One for each image."""

    def scram_credentials(self) -> tuple[UserScramCredentialRecord, ...]:
        """The SCRAM credentials, oldest first."""
        return tuple(one for one in self.values() if isinstance(one, UserScramCredentialRecord))

    def scram_credential(self, name: str, mechanism: int) -> msgspec.Struct | None:
        """The credential of a user; None if it has none. `mechanism`: as in the protocol."""
        return self.get(("scram", mechanism, name))

    def delegation_tokens(self) -> tuple[DelegationTokenRecord, ...]:
        """The tokens, oldest first, also expired ones."""
        return tuple(one for one in self.values() if isinstance(one, DelegationTokenRecord))

    def delegation_token(self, token_id: str) -> DelegationTokenRecord | None:
        """The token with this id; None if it does not exist."""
        found = self.get(("token", token_id))
        return found if isinstance(found, DelegationTokenRecord) else None


def records_in_force(records: Iterable[msgspec.Struct]) -> LoginRecords:
    """The records in force after `records`, which may include other kinds."""
    found = LoginRecords()
    for record in records:
        key, kept = login_key(record), in_force_after(record)
        if key is not None and kept is not None:
            found[key] = kept
        elif key is not None:
            found.pop(key, None)
    return found
