"""The bodies of the quorum's control records (KIP-595, 630, 853) and of its `quorum-state` file."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.schema import Int16, Int32, Int64, Uint16, message, wire


class LeaderChangeMessageVoter(msgspec.Struct, frozen=True):
    voter_id: Int32 = 0
    voter_directory_id: Annotated[Uuid, wire("1+")] = ZERO_UUID


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage(msgspec.Struct, frozen=True):
    """The first record of a leader's epoch. v1 the voters' directories (KIP-853)."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: tuple[LeaderChangeMessageVoter, ...] = ()
    granting_voters: tuple[LeaderChangeMessageVoter, ...] = ()


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord(msgspec.Struct, frozen=True):
    """The first record of a snapshot."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@message(versions="0", flexible="0+")
class SnapshotFooterRecord(msgspec.Struct, frozen=True):
    """The last record of a snapshot."""

    version: Int16 = 0


@message(versions="0", flexible="0+")
class KRaftVersionRecord(msgspec.Struct, frozen=True):
    """The finalized `kraft.version`."""

    version: Int16 = 0
    kraft_version: Int16 = 0


class Endpoint(msgspec.Struct, frozen=True):
    name: str = ""
    host: str = ""
    port: Uint16 = 0


class KRaftVersionFeature(msgspec.Struct, frozen=True):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class VotersRecordVoter(msgspec.Struct, frozen=True):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


@message(versions="0", flexible="0+")
class VotersRecord(msgspec.Struct, frozen=True):
    """The voters of the quorum and their addresses (KIP-853)."""

    version: Int16 = 0
    voters: tuple[VotersRecordVoter, ...] = ()
