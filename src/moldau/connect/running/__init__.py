"""The light task: one task of a connector in a process of its own, without a JVM.

`python -m moldau.connect.running NAME-SLOT` reads JSON lines on stdin; its argument is for `ps` alone. The first line
is the task:

    {"connector": "lines", "slot": 0, "slots": 3, "state": "RUNNING",
     "config": {"name": "lines", "connector.class": "datagen", ...},
     "worker": {"bootstrap.servers": "...", "group.id": "connect", "offset.storage.topic": "connect-offsets",
                "client": {"security.protocol": "SASL_SSL", ...},
                "access": {"security.protocol": "SASL_SSL", ...}, "spark": {"spark.master": "local[*]", ...},
                "key.converter": "...", "value.converter": "...", "header.converter": "..."}}

`config`: of this task, as `split` of `moldau.connect.plugins` gives it for the slot; texts. `state`: RUNNING or PAUSED
at the start. `worker.client`: settings of librdkafka, with secrets (moldau.transport.librdkafka makes them); `access`
and `spark` are for the runner on Spark (moldau.products.connect.on_spark). The config
adds `producer.override.*` and `consumer.override.*` for the topics of records. Converters of `worker` are used where
the config has none. The topic of offsets must exist, compacted. The transactional id is GROUP-CONNECTOR-SLOT.

Each later line is a command: {"do": "pause"}, {"do": "resume"}, {"do": "stop"}. The end of stdin is "stop": the
worker is gone. A task that does not stop within 20 s exits with 1. An unknown command fails the task.

On stdout, one JSON object a line:

    {"state": "RUNNING"}           also PAUSED
    {"state": "STOPPED", "finished": false}    after "stop"; exit code 0. `finished` true: a batch source has read all
    {"state": "FAILED", "trace": "..."}        exit code 1; the worker may start the task again
    {"progress": {"records": 10, "bytes": 120, "batches": 2, "topics": ["t"], "offset": {...}, "idle": false,
                  "lag": 0}}

`progress` comes at most once a second and before the last state, with totals since the start of the process. `topics`:
those that the task has used. `offset`: of a source, the place that is committed; of a sink, {"TOPIC": {"0": 12}}.
`idle`: the last look found nothing new. `lag` is of a sink alone: records that it has not read. Logs go to stderr.

Kept in the topic of offsets (keys and values are JSON without spaces):

- source: key `["NAME",{"slot":0}]`, value: the reader's offset, or of a batch reader {"partition": 0, "rows": 5,
  "finished": false}. It is written in the transaction of its records. A tombstone lets the task begin again.
- sink: key `["NAME",{"slot":0}]`, value {"id": "4f1c...", "batch": 7, "ranges": {"TOPIC": {"0": [start, end]}}}: the
  batch that is written next, or again. `id` is chosen once for the name. Committed offsets of the group `connect-NAME`
  that have reached every `end` show that the batch is done. To set the group's offsets, stop the tasks, then write
  this value with `ranges` {}, the same `id`, and `batch` plus 1 unless `ranges` was {}, because a target may know
  batches by their number. A task that finds no value begins at batch 0 with a new id.
- key `["NAME",{}]`, value {"slots": 3}: the number of slots. While slot 0 of a sink ends the batches of another number
  (see `slots`), also "earlier": that number. A source has it if its class has `split`.

A connector that is deleted needs tombstones for all its slots.

__main__: the process of a task
arrow: rows of a sink as record batches
arrow_path: decides whether a task moves record batches, or single records
arrow_sink: the task of a sink that takes record batches
arrow_source: the output of a source of record batches
arrow_transactions: transactions of record batches
clients: the Kafka clients of a task
connector: the connector of a task
contexts: the query, batch and partition that a writer sees
conversion: converters and transforms
errors: records that are left out, and their dead letters
incoming: records of topics as rows of a sink
intake: reads the records of a sink
jobs: what the loop runs
loop: runs a job between commands
memory: the bound of memory
notes: the batches of a sink
opening: the job of a light task
outgoing: rows of a source as records of topics
output: what writes the batches of a source
partitions: the partitions of a sink's slot
placed: a source as one of Spark that begins at a place
places: the places of a connector in the topic of offsets
process: stdin and stdout of the process, and the end of a stop
protocol: the lines between a worker and its task
reading: one form for the three readers of a source
sink: the task of a sink
slots: the slots of a connector when their number changes
source: the task of a source
transactions: transactions of a task
"""
