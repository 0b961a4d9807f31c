"""A program that speaks the lines of a task, as `moldau.connect.running` does; it needs no pyspark.

It copies lines as Kafka's file connectors do. `fail` in a configuration makes the task fail with
these words, `exit` makes the process end, `grow` makes it take so many MiB.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

SOURCE = "FileStreamSource"
PAUSE = threading.Event()


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


class Commands:
    def __init__(self) -> None:
        self.is_paused = False
        self.is_stopped = False

    def read(self) -> None:
        for line in sys.stdin:
            word = json.loads(line)["do"]
            if word == "stop":
                break
            self.is_paused = word == "pause"
            say({"state": "PAUSED" if self.is_paused else "RUNNING"})
        self.is_stopped = True


def run_task() -> None:
    task = json.loads(sys.stdin.readline())
    config, commands = task["config"], Commands()
    commands.is_paused = task["state"] == "PAUSED"
    if "exit" in config:
        print("the last words of the process", file=sys.stderr, flush=True)
        os._exit(int(config["exit"]))
    if "fail" in config:
        say({"state": "FAILED", "trace": config["fail"]})
        sys.exit(1)
    say({"state": task["state"]})
    threading.Thread(target=commands.read, daemon=True).start()
    held = bytearray(int(config.get("grow", "0")) << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
    if "log" in config:
        with open(config["log"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"slot": task["slot"], "pid": os.getpid(), "config": config}) + "\n")
    copy = copy_in if config["connector.class"] == SOURCE else copy_out
    copy(task, config, commands)
    say({"state": "STOPPED", "finished": False})


def copy_in(task: dict[str, Any], config: dict[str, str], commands: Commands) -> None:
    client = {"bootstrap.servers": task["worker"]["bootstrap.servers"]}
    key = json.dumps([task["connector"], {"filename": config["file"]}], separators=(",", ":"))
    place = kept_place(client, task["worker"]["offset.storage.topic"], key)
    producer = Producer({**client, "partitioner": "murmur2_random"})
    while not commands.is_stopped:
        with open(config["file"], "rb") as file:
            file.seek(place)
            text = b"" if commands.is_paused else file.read()
        if text:
            for line in text.splitlines():
                producer.produce(config["topic"], line)
            place += len(text)
            producer.produce(task["worker"]["offset.storage.topic"], json.dumps({"position": place}), key)
            producer.flush(30)
            say({"progress": {"topics": [config["topic"]], "records": len(text.splitlines())}})
        PAUSE.wait(0.02)


def kept_place(client: dict[str, str], topic: str, key: str) -> int:
    consumer = Consumer({**client, "group.id": "nobody", "enable.partition.eof": True})
    partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    found, ends = 0, 0
    while ends < len(partitions):
        message = consumer.poll(30)
        if message.error() is not None:
            ends += 1
        elif message.key() == key.encode():
            found = 0 if message.value() is None else json.loads(message.value())["position"]
    consumer.close()
    return found


def copy_out(task: dict[str, Any], config: dict[str, str], commands: Commands) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": task["worker"]["bootstrap.servers"],
            "group.id": f"connect-{task['connector']}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(config["topics"].split(","))
    while not commands.is_stopped:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None and not commands.is_paused:
            with Path(config["file"]).open("ab") as file:
                file.write(message.value() + b"\n")
            consumer.commit(message, asynchronous=False)
            say({"progress": {"topics": [message.topic()], "records": 1}})
    consumer.close()


if __name__ == "__main__":
    run_task()
