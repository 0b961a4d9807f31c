"""A user's program that reads and writes with Spark at a secured cluster: by references, by a profile, and (rejected)
with a secret in an option: `hunted_program.py SERVERS TOPIC CA UI_PORT EVENTS LITERAL_FILE`. It ends when the last file
is empty."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from moldau.spark import open_session

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def main() -> None:
    servers, topic, ca, ui_port, events, literal_file = sys.argv[1:]
    spark = open_session(
        "hunted",
        {
            "spark.ui.enabled": "true",
            "spark.ui.port": ui_port,
            "spark.port.maxRetries": "0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(events).as_uri(),
        },
        cores=2,
        log_path=Path(events).parent / "program.log",
    )
    common = {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": ca,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
    }
    jaas = f'{SCRAM} required username="carol" password="{{}}";'
    carol = {**common, "kafka.sasl.jaas.config": jaas.format("${env:KAFKA_PASSWORD}")}
    rows = spark.range(100).selectExpr("cast(id as string) as value").coalesce(1)
    rows.write.format("moldau").options(**carol).option("topic", topic).mode("append").save()
    read = spark.read.format("moldau").option("profile", "bob").option("subscribe", topic)
    print("rows", read.load().count(), flush=True)
    password = Path(literal_file).read_text()
    literals = (
        {"kafka.sasl.jaas.config": jaas.format(password)},
        {"kafka.sasl.username": "b", "kafka.sasl.password": password},
    )
    for number, literal in enumerate(literals):
        options = {**common, **literal}
        stream = spark.readStream.format("moldau").options(**carol).option("subscribe", topic).load().select("value")
        to = stream.writeStream.format("moldau").options(**options).option("topic", topic)
        for act in (
            lambda options=options: spark.read.format("moldau").options(**options).option("subscribe", topic).load(),
            lambda options=options: (
                rows.write.format("moldau").options(**options).option("topic", topic).mode("append").save()
            ),
            lambda to=to, number=number: (
                to.option("checkpointLocation", f"{events}-{number}").start().awaitTermination()
            ),
        ):
            try:
                act()
            except Exception as error:
                print("refused", error, flush=True)
            else:
                print("a secret in an option was taken", flush=True)
    print("done", flush=True)
    while Path(literal_file).read_text():
        threading.Event().wait(0.1)
    spark.stop()


if __name__ == "__main__":
    main()
