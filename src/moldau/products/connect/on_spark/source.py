"""A source as a streaming query: each batch is one transaction, with the connector's place in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.describing import Reading
from moldau.connect.contract.shared_settings import BATCH_ROWS
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.clients import COMPRESSION, PRODUCER_OVERRIDES, overrides
from moldau.connect.running.connector import Connector
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.jobs import Step
from moldau.connect.running.outgoing import encoder
from moldau.connect.running.placed import first_place, placed_source
from moldau.connect.running.places import count_key, place_key, read_place, to_json
from moldau.connect.running.protocol import Commands, Progress, Task
from moldau.connect.running.reading import FINISHED, Place
from moldau.connect.running.slots import place_of_part
from moldau.connect.running.transactions import FencedError
from moldau.errors import ProducerFencedError
from moldau.products.connect.on_spark.encoding import FENCING, RECORDS, Encoding, Sending, Sent
from moldau.products.connect.on_spark.producing import Producing
from moldau.products.connect.on_spark.reports import REPORT, collect_reports
from moldau.products.connect.on_spark.session import access_of, open_task_session
from moldau.products.connect.on_spark.streams import LOOK_S, End, Stream
from moldau.spark import available_cores
from moldau.spark.definitions.data_sources import pickle_with_code, register_data_source

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession


class SparkSource:
    def __init__(self, task: Task, used: Connector, commands: Commands) -> None:
        """Raises ConfigError, AccessError, and what the class raises."""
        self.progress = Progress()
        self._task = task
        self._used = used
        self._is_stopping = commands.is_stopping
        source = used.new(task)
        self._reading = used.reading()
        self._encoding = Encoding(task, used.schema(source), tuple(getattr(source, "key_columns", ())))
        self._check()
        self._compression = _compression(task)
        self._access = access_of(task)
        self._producing = Producing(self._access, task.transactional_id)
        self._key = place_key(task.connector, task.slot)
        self._place: Place = {}
        self._spark: SparkSession | None = None
        self._stream = Stream(task.connector, self._load, self._write)

    def start(self) -> None:
        self._spark = open_task_session(self._task, self._used.values)
        self._producing.start()
        if self._used.description.has_split:
            place = place_of_part(self._task, self._is_stopping.is_set, self._write_count)
        else:
            place = read_place(self._task, self._is_stopping.is_set)
        self._place = place or self._first_place()
        self.progress.begin(self._place)

    def step(self, wait_s: float) -> Step:
        if self._reading is Reading.BATCH and self._place[FINISHED]:
            return Step.FINISHED
        if not self._stream.is_open:
            self._stream.start()
        self._stream.look()
        return Step.BUSY if self._stream.wait(min(wait_s, LOOK_S)) else Step.WAITED

    def pause(self) -> None:
        self._stream.stop()
        self._producing.abort()

    def close(self) -> None:
        self.pause()

    def _first_place(self) -> Place:
        return first_place(self._used.new(self._task), self._reading, self._encoding.schema)

    def _load(self) -> DataFrame:
        spark = self._session()
        pickle_with_code(self._used.found)
        most = available_cores() if self._reading is Reading.BATCH else self._used.values[BATCH_ROWS]
        placed = placed_source(self._used.found, self._task.config, self._reading, self._place, most)
        name = register_data_source(spark, placed)
        return spark.readStream.format(name).schema(self._encoding.schema).load()

    def _write(self, batch: DataFrame, end: End) -> None:
        """In a thread of Spark."""
        if dict(end) == self._place:  # the first batch of a query, of a source without anything new
            return
        sending = Sending(self._access, self._producing.begin(), self._compression)
        records = batch.mapInArrow(self._encoding, RECORDS)
        sent: list[Sent] = collect_reports(records.repartition(1).mapInArrow(sending, REPORT))
        place = dict(end)
        try:
            if any(one.is_fenced for one in sent):
                raise ProducerFencedError("its records were refused")
            self._producing.commit(self._task.offsets_topic, self._key, to_json(place))
        except FENCING as error:
            raise FencedError(f"another task with the id {self._task.transactional_id} has started: {error}") from error
        self._place = place
        topics = {topic for one in sent for topic in one.topics}
        self.progress.count(sum(one.records for one in sent), sum(one.size for one in sent), topics, place)

    def _write_count(self, count: bytes) -> None:
        self._producing.begin()
        self._producing.commit(self._task.offsets_topic, count_key(self._task.connector), count)

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise RuntimeError("not started")
        return self._spark

    def _check(self) -> None:
        """Raises ConfigError for converters, transforms and columns, before Spark starts."""
        config = self._task.config
        errors = Errors(error_settings(config), self._task, self._is_stopping)
        conversion = Conversion(config, self._task.defaults, errors)
        encoder(self._encoding.schema, self._encoding.key_columns, config, conversion)
        conversion.close()


def _compression(task: Task) -> str:
    """The one setting of producers that has a meaning here. Raises ConfigError for another one."""
    given = overrides(task.config, PRODUCER_OVERRIDES)
    for name in given:
        if name != COMPRESSION:
            sentence = f"{PRODUCER_OVERRIDES}{name} is for the runner light; here only {COMPRESSION} can be set"
            raise ConfigError({PRODUCER_OVERRIDES + name: (sentence,)})
    return given.get(COMPRESSION, "none")
