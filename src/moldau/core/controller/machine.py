"""The controller: the state machine whose log is `__cluster_metadata`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.assignments import Charge, free_of_charge
from moldau.core.controller.brokers import heartbeat
from moldau.core.controller.configs import MIN_INSYNC_REPLICAS
from moldau.core.controller.directories import assign_directories
from moldau.core.controller.registrations import register_broker, register_controller
from moldau.core.controller.requests import (
    ActivateController,
    AskedRequest,
    ControllerReady,
    ControllerRequest,
    ControllerResponse,
    MeteredRequest,
    Round,
    SuspectBroker,
)
from moldau.core.controller.rounds import first_rounds, look_for_stale, play_round, sweep_later
from moldau.core.controller.sessions import BrokerSessions
from moldau.core.controller.topics import create_topics, delete_topics
from moldau.core.coordination.machine import Decision, Now, Timer
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.core.metadata.image import CLUSTER_DEFAULTS, LeaderRecoveryState, MetadataDelta, MetadataImage
from moldau.core.quotas.rates import Windows
from moldau.core.quotas.usage import MutationBuckets
from moldau.ports import Random
from moldau.types import Offset, Pausing, ProducerEpoch, ProducerId
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from moldau.wire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from moldau.wire.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest

ControllerDecision = Decision[ControllerRequest, ControllerResponse, MetadataRecord]


class ControllerMachine:
    """See `moldau.core.coordination.machine.Machine`. Answers every request in the same decision."""

    def __init__(
        self, cluster_id: str, settings: BrokerSettings, random: Random, kraft_version: Callable[[], int]
    ) -> None:
        """`kraft_version`: from the control records of the log."""
        self._cluster_id = cluster_id
        self._settings = settings
        self._random = random
        windows = Windows(settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1_000)
        self._mutations = MutationBuckets(windows)
        self._kraft_version = kraft_version
        self._sessions = BrokerSessions(
            settings.node_id, settings.broker_session_timeout_ms, settings.moldau_broker_suspicion_ms
        )
        self._are_rounds_armed = False
        self.unclean_elections = 0
        """The number of unclean elections since the start."""

    def new_state(self) -> MetadataFold:
        return MetadataFold(self._cluster_id)

    def decide(
        self, state: MetadataFold, request_id: int, request: ControllerRequest, now: Now
    ) -> Pausing[ControllerDecision]:
        """The records and the response of one request, with pauses if it names many things. Raises KafkaError if the
        response has no field for the error."""
        image, now_ms = state.image, now.steady_ms
        if isinstance(request, Round):
            records, next_round = yield from play_round(image, self._settings, self._sessions, request, now)
            self.unclean_elections += sum(map(_is_unclean_election, records))
            return Decision(tuple(records), timers=(next_round,))
        records, response = yield from self._answer(state, request, now)
        self.unclean_elections += sum(map(_is_unclean_election, records))
        timers: tuple[Timer[ControllerRequest], ...] = ()
        if self._sessions.has_others and not self._are_rounds_armed:
            self._are_rounds_armed = True
            timers = first_rounds(image, self._settings, self._sessions, now_ms)
        elif isinstance(request, SuspectBroker):
            timers = (look_for_stale(image, self._sessions, now_ms),)
        if isinstance(request, ActivateController) and self._settings.delegation_token_secret_key is not None:
            timers = (*timers, sweep_later(self._settings, now_ms))
        return Decision(tuple(records), ((request_id, response),), timers)

    def _answer(
        self,
        state: MetadataFold,
        request: AskedRequest,
        now: Now,
        charge: Charge = free_of_charge,
    ) -> Pausing[tuple[list[MetadataRecord], ControllerResponse]]:
        image = state.image
        match request:
            case CreateTopicsRequest():
                return (yield from create_topics(state, self._settings, self._random, request, charge))
            case DeleteTopicsRequest():
                return (yield from delete_topics(image, self._settings, request, charge))
            case BrokerRegistrationRequest():
                return register_broker(image, self._settings, self._sessions, request, now.steady_ms)
            case BrokerHeartbeatRequest():
                return heartbeat(image, self._settings, self._sessions, request, now.steady_ms)
            case AssignReplicasToDirsRequest():
                return assign_directories(image, self._settings, request)
            case ControllerRegistrationRequest():
                return register_controller(request)
            case ActivateController():
                self._sessions.begin(image, now.steady_ms)
                self._are_rounds_armed = False
                return self._activate(state, request), ControllerReady()
            case SuspectBroker():
                self._sessions.suspect(
                    request.broker_id, request.broker_epoch, now.steady_ms, is_reset=request.is_reset
                )
                return [], ControllerReady()
            case MeteredRequest():
                metered = self._mutations.charge(request.quota, now.steady_ms)
                records, response = yield from self._answer(state, request.request, now, metered.take)
                return records, msgspec.structs.replace(response, throttle_time_ms=metered.settle())
            case _:
                from moldau.core.controller.administration import administer

                return (
                    yield from administer(
                        state, self._settings, self._random, self._kraft_version(), request, charge, now.wall_ms
                    )
                )

    def _activate(self, state: MetadataFold, request: ActivateController) -> list[MetadataRecord]:
        """The first records of an active controller: those of the cluster, all or nothing (KIP-868)."""
        records: list[MetadataRecord] = []
        if state.image.transaction is not None:
            records.append(AbortTransactionRecord("controller restarted"))
        if METADATA_VERSION in state.image.features:
            return records
        records.append(BeginTransactionRecord("Bootstrap records"))
        records += request.bootstrap_records
        if any(_enables_elr(record) for record in request.bootstrap_records):
            # with ELR the minimum is one value for the whole cluster, because brokers must not disagree on it (KIP-966)
            resource, minimum = CLUSTER_DEFAULTS, str(self._settings.min_insync_replicas)
            records.append(ConfigRecord(resource.resource_type, resource.name, MIN_INSYNC_REPLICAS, minimum))
        records.append(EndTransactionRecord())
        return records

    def decide_loaded(self, state: MetadataFold, image: MetadataImage, now: Now) -> ControllerDecision:
        """Nothing. The role requests the activation, because it knows the bootstrap file."""
        return Decision()

    def decide_metadata(
        self, state: MetadataFold, image: MetadataImage, delta: MetadataDelta, now: Now
    ) -> ControllerDecision:
        """Nothing. The metadata is the state of this machine."""
        return Decision()

    def apply(
        self,
        state: MetadataFold,
        offset: Offset,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        record: MetadataRecord,
    ) -> None:
        """Applies one record. Raises ValueError for a contradiction to the image."""
        state.apply(record)

    def apply_end_transaction(
        self, state: MetadataFold, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Nothing. The metadata log has its own records for transactions."""
        raise ValueError("an end-transaction marker in the metadata log")


def _enables_elr(record: MetadataRecord) -> bool:
    if not isinstance(record, FeatureLevelRecord):
        return False
    return record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0


def _is_unclean_election(record: MetadataRecord) -> bool:
    return isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == LeaderRecoveryState.RECOVERING
