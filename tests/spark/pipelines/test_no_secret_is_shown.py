"""A secret is planted in every place that accepts one, and then searched for wherever data is shown or kept: output,
logs, HTTP responses, Spark's page and event log, checkpoints, records, command lines and environments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import read_topic
from moldau.core.config.properties import parse_properties
from moldau.wire.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.receiver import Receiver
from tests.support.secret_hunt import PLANTED, Hunt, ProcessWatch, answer_of
from tests.support.talking_process import TalkingProcess

pytestmark = pytest.mark.slow
PATIENCE_S = 240
SECRETS = {
    name: f"{PLANTED}{name}0x7Qz"
    for name in ("Alice", "Bob", "Carol", "Dave", "Node", "Store", "Trust", "Key", "Hook", "Wrong", "Literal")
}
VARIABLES = {"KAFKA_PASSWORD": SECRETS["Carol"], "HOOK_TOKEN": SECRETS["Hook"]}
"""The secrets in the environment."""
PROFILES = """
[profiles.bob]
bootstrap.servers = "{servers}"
security.protocol = "SASL_SSL"
ssl.truststore.type = "PKCS12"
ssl.truststore.location = "{folder}/trust.p12"
ssl.truststore.password = "{Trust}"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "bob"
sasl.password = "{Bob}"

[profiles.carol]
bootstrap.servers = "{servers}"
security.protocol = "SASL_SSL"
ssl.ca.location = "{folder}/ca.pem"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "carol"
sasl.password = {{env = "KAFKA_PASSWORD"}}
"""
SPEC = """
name: hunted
cluster:
  bootstrap.servers: {servers}
  security.protocol: SASL_SSL
  ssl.truststore.type: PEM
  ssl.truststore.location: ca.pem
  sasl.mechanism: SCRAM-SHA-512
  sasl.jaas.config: {SCRAM} required username="carol" password="${{KAFKA_PASSWORD}}";
sources:
  orders: {{topic: orders, format: json, schema: n int}}
flows:
  all: select n from orders
targets:
  copy: {{from: all, topic: copy}}
  hook: {{from: all, webhook: "{hook}", authorization: "Bearer ${{HOOK_TOKEN}}"}}
"""


class Place:
    """A broker with a login on each listener, files that hold secrets, and the programs that ran. `run` gives a
    program's output, after `hunt` has searched it."""

    def __init__(self, folder: Path, hunt: Hunt, stack: ExitStack) -> None:
        self.folder, self.hunt, self.stack = folder, hunt, stack
        self._held = stack.enter_context(held_port())
        self.servers = f"127.0.0.1:{port_of(self._held)}"
        self.environment = {"XDG_CONFIG_HOME": str(folder / "config"), **VARIABLES}
        (folder / "node.p12").write_bytes(authority().issue("CN=node").pkcs12(SECRETS["Store"]))
        authority().write(folder)
        self.client = self.properties("client.properties", "alice", f"{PLAIN_MODULE}", SECRETS["Alice"])
        self.write("users.properties", f"SCRAM-SHA-512=iterations=4096,password={SECRETS['Bob']}\n")
        self.node = self.start(
            "up", "--no-console", "--config", str(self.write("node.properties", self.node_properties()))
        )
        assert self.node.wait_for(lambda line: line.startswith("ready "), time.monotonic() + PATIENCE_S)

    def node_properties(self) -> str:
        users = " ".join(f'user_{name.lower()}="{SECRETS[name]}"' for name in ("Node", "Alice"))
        login = f'{PLAIN_MODULE} required username="node" password="{SECRETS["Node"]}" {users};'
        settings = {
            "listeners": f"SASL_SSL://{self.servers}",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": f"{self.folder}/node.p12",
            "ssl.keystore.password": SECRETS["Store"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.folder}/ca.pem",
            "ssl.client.auth": "requested",
            "log.dirs": f"{self.folder}/data",
            "moldau.http.listener": "127.0.0.1:0",
            "connection.failed.authentication.delay.ms": "1",
        }
        return "".join(f"{name}={text}\n" for name, text in settings.items())

    def properties(self, file: str, user: str, module: str, password: str, **more: str) -> Path:
        mechanism = "PLAIN" if module == PLAIN_MODULE else "SCRAM-SHA-512"
        issued = authority().issue(f"CN={user}")
        self.write(f"{user}-key.pem", issued.key_pem_with(SECRETS["Key"]) + issued.chain_pem)
        settings = {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.folder}/ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{self.folder}/{user}-key.pem",
            "ssl.key.password": SECRETS["Key"],
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        return self.write(file, "".join(f"{name}={text}\n" for name, text in settings.items()))

    def write(self, file: str, text: str) -> Path:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def start(self, *words: str) -> TalkingProcess:
        return self.start_python("-m", "moldau.cli.main", *words)

    def start_python(self, *words: str) -> TalkingProcess:
        process = TalkingProcess([sys.executable, *words], self.environment)

        def end() -> None:
            process.kill()
            self.hunt.look_at("output", " ".join(words[:3]), "".join(process.output).encode())

        self.stack.callback(end)
        return process

    def run(self, *words: str, given: str = "", code: int = 0) -> str:
        command, environment = [sys.executable, "-m", "moldau.cli.main", *words], {**os.environ, **self.environment}
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
        )
        said = done.stdout + done.stderr
        self.hunt.look_at("output", " ".join(words), said.encode())
        assert done.returncode == code, said
        return said


@pytest.fixture
def hunt() -> Hunt:
    return Hunt(SECRETS)


@pytest.fixture
def place(tmp_path: Path, hunt: Hunt) -> Iterator[Place]:
    with ExitStack() as stack:
        watch = ProcessWatch(hunt, VARIABLES, os.getpid())
        stack.callback(watch.stop)
        place = Place(tmp_path, hunt, stack)
        place.write("config/moldau/profiles.toml", PROFILES.format(servers=place.servers, folder=tmp_path, **SECRETS))
        (tmp_path / "trust.p12").write_bytes(trust_store(SECRETS["Trust"]))
        alice = ("--bootstrap-server", place.servers, "--command-config", str(place.client))
        users = ("--alter", "--entity-type", "users", "--add-config-file", str(tmp_path / "users.properties"))
        place.run("kafka-configs", *alice, *users, "--entity-name", "bob")
        place.write("users.properties", f"SCRAM-SHA-512=iterations=4096,password={SECRETS['Carol']}\n")
        place.run("kafka-configs", *alice, *users, "--entity-name", "carol")
        for topic in ("orders", "copy", "seen"):
            place.run("topics", "create", topic, "--profile", "bob")
        place.run("produce", "orders", "--profile", "carol", given="".join(f'{{"n": {n}}}\n' for n in range(100)))
        yield place


def trust_store(password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    own = pkcs12.PKCS12Certificate(authority().own.certificate, b"ca")
    return pkcs12.serialize_java_truststore([own], BestAvailableEncryption(password.encode()))


def commands(place: Place) -> None:
    """Commands that describe, and commands that fail."""
    alice = ("--bootstrap-server", place.servers, "--command-config", str(place.client))
    for words in (
        ("kafka-configs", *alice, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"),
        ("kafka-configs", *alice, "--describe", "--entity-type", "users"),
        ("kafka-console-consumer", *alice, "--topic", "orders", "--from-beginning", "--max-messages", "1"),
        ("configs", "describe", "broker", "1", "--profile", "bob", "--all"),
        ("topics", "list", "--json", "--command-config", str(place.client)),
        ("consume", "orders", "--from", "beginning", "--count", "3", "--profile", "carol"),
        ("doctor", "--profile", "bob"),
        ("groups", "list", "--profile", "bob"),
    ):  # fmt: skip
        place.run(*words)
    wrong = place.properties("wrong.properties", "alice", PLAIN_MODULE, SECRETS["Wrong"])
    malformed = place.properties("malformed.properties", "alice", PLAIN_MODULE, f'{SECRETS["Wrong"]}" and "more')
    no_key = place.properties("no_key.properties", "alice", SCRAM_MODULE, "x", ssl_key_password=SECRETS["Wrong"])
    for path in (wrong, malformed, no_key):
        place.run("topics", "list", "--command-config", str(path), code=1)
    place.run("doctor", "--command-config", str(wrong), code=1)
    for number, change in enumerate(
        (
            (f"ssl.keystore.password={SECRETS['Store']}", f"ssl.keystore.password={SECRETS['Wrong']}"),
            ("required username", f"{SECRETS['Wrong']} username"),
            ("ssl.keystore.type=PKCS12", f"ssl.keystore.type={SECRETS['Store'][:0]}PEM"),
        )
    ):
        text = place.node_properties().replace(*change).replace(f"{place.folder}/data", f"{place.folder}/none")
        place.run("up", "--no-console", "--config", str(place.write(f"bad{number}.properties", text)), code=1)
    literal = SPEC.replace("${{KAFKA_PASSWORD}}", "{Literal}").replace("Bearer ${{HOOK_TOKEN}}", "a")
    text = literal.format(servers=place.servers, SCRAM=SCRAM_MODULE, hook="http://127.0.0.1:1/", **SECRETS)
    place.run("pipeline", "check", str(place.write("literal.yaml", text)), code=2)
    config = Path(place.environment["XDG_CONFIG_HOME"]) / "moldau" / "profiles.toml"
    whole = config.read_text()
    for broken in (whole.replace('"\nsasl.mechanism', "\nsasl.mechanism"), whole.replace("PLAINTEXT", "X") + "\n=\n"):
        config.write_text(broken)
        place.run("topics", "list", "--profile", "bob", code=1)
    config.write_text(whole)
    config.chmod(0o644)
    place.run("topics", "list", "--profile", "bob", code=1)
    config.chmod(0o600)


def services(place: Place) -> None:
    """The console and the registry, which reach the broker as bob and as alice."""
    for words, kind, paths in (
        (("registry", "--profile", "bob"), "registry", ("/subjects", "/config", "/schemas/types", "/metrics", "/mode")),
        (
            ("console", "--command-config", str(place.client)),
            "console",
            ("/brokers/1", "/topics/orders/records?from=beginning", "/groups", "/pipelines", "/metrics"),
        ),
    ):
        service = place.start(*words, "--port", "0")
        address = address_in(service, words[0])
        place.hunt.pages(kind, address, *paths)
    (metrics,) = re.findall(r"http://\S+/metrics", "".join(place.node.output))
    place.hunt.pages("node", metrics, "/metrics", "/live", "/ready")


def address_in(process: TalkingProcess, name: str) -> str:
    """Of a service that prints `name http://...`."""
    assert process.wait_for(lambda line: line.startswith(f"{name} http"), time.monotonic() + PATIENCE_S), process.output
    return next(line.split()[1] for line in process.output if line.startswith(f"{name} http"))


def pipeline(place: Place, hook: str) -> None:
    """A run with its board, and Spark's page and event log."""
    held = place.stack.enter_context(held_port())
    events = place.folder / "events"
    events.mkdir()
    text = SPEC.format(servers=place.servers, SCRAM=SCRAM_MODULE, hook=hook, **SECRETS)
    spec = str(place.write("hunted.yaml", text))
    for verb in ("check", "graph", "status"):
        place.run("pipeline", verb, spec)
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port_of(held)),
        "spark.port.maxRetries": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
    }
    words = [word for name, text in settings.items() for word in ("--spark", f"{name}={text}")]
    run = place.start("pipeline", "run", spec, "--port", "0", *words)
    board = address_in(run, "board")
    wait_until(lambda: count_of(place, "copy") == 100, run)
    place.hunt.pages("board", board, "/status.json", "/metrics")
    spark_spec(place, port_of(held))
    place.run("pipeline", "status", spec)
    for name in ("hunted.copy", "hunted.hook"):
        place.run("groups", "describe", f"moldau.{name}", "--profile", "bob", "--json")
    place.run("pipeline", "stop", spec)
    assert run.live_on(PATIENCE_S) == 0
    place.hunt.files("checkpoint", place.folder / "checkpoints")
    place.hunt.files("event log", events)


def program(place: Place) -> None:
    """A user's program."""
    held = place.stack.enter_context(held_port())
    events = place.folder / "program" / "events"
    events.mkdir(parents=True)
    literal = place.write("literal", SECRETS["Literal"])
    file = Path(__file__).parent / "hunted_program.py"
    words = (place.servers, "seen", f"{place.folder}/ca.pem", str(port_of(held)), str(events), str(literal))
    running = place.start_python(str(file), *words)
    assert running.wait_for(lambda line: line == "done", time.monotonic() + PATIENCE_S), "".join(running.output)
    output = "".join(running.output)
    assert "rows 100" in output
    assert output.count("refused") == 6, output
    assert output.count("holds a secret itself") == 6, output
    spark_spec(place, port_of(held))
    place.write("literal", "")
    assert running.live_on(PATIENCE_S) == 0
    place.hunt.files("event log", place.folder / "program")


def spark_spec(place: Place, port: int) -> None:
    address = f"http://127.0.0.1:{port}"
    tabs = ("/environment/", "/SQL/", "/jobs/", "/stages/", "/StreamingQuery/", "/executors/", "/api/v1/applications")
    before = place.hunt.looked_at.get("Spark's page", 0)
    place.hunt.pages("Spark's page", address, *tabs)
    found = answer_of(f"{address}/api/v1/applications")
    (application,) = json.loads(found[found.index(b"[") :])
    rest = f"/api/v1/applications/{application['id']}"
    kinds = ("environment", "sql?details=true&planDescription=true&length=500", "jobs", "stages?details=true")
    place.hunt.pages("Spark's page", address, *(f"{rest}/{kind}" for kind in kinds))
    assert place.hunt.looked_at["Spark's page"] - before > 10


def count_of(place: Place, topic: str) -> int:
    properties = parse_properties(place.client.read_text())
    return sum(batch.num_rows for batch in read_topic(ClusterAccess.from_properties(properties), topic))


def wait_until(is_so: Callable[[], bool], process: TalkingProcess) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.live_on(0.5) is None, "".join(process.output)
        assert time.monotonic() < end_s, "".join(process.output)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_hunt_finds_what_is_shown(hunt: Hunt, tmp_path: Path) -> None:
    """Without this the test below could pass by finding nothing."""
    secret = SECRETS["Alice"]
    for text in (secret, secret.encode().hex()):
        hunt.look_at("a", text, text.encode())
    assert len(hunt.found) == 4
    command = [sys.executable, "-c", "import threading; threading.Event().wait(60)", secret]
    process = TalkingProcess(command, {"SHOWN": secret, "GIVEN": secret})
    watch = ProcessWatch(hunt, ("GIVEN",), os.getpid())
    wait_until(lambda: any(line.startswith("environment") for line in hunt.found), process)
    watch.stop()
    process.kill()
    (tmp_path / "log").write_text(f"a\n{secret}")
    hunt.files("file", tmp_path)
    assert {line.split(" ")[0] for line in hunt.found} == {"a", "command", "environment", "file"}


def test_no_secret_is_shown(place: Place, hunt: Hunt, receiver: Receiver) -> None:
    commands(place)
    services(place)
    pipeline(place, receiver.url)
    assert {headers["Authorization"] for headers, _ in receiver.requests} == {f"Bearer {SECRETS['Hook']}"}
    program(place)
    place.stack.close()
    hunt.files("broker's data", place.folder / "data")
    assert hunt.found == set()
    wanted: Mapping[str, int] = {
        "output": 30, "command line": 50, "environment": 50, "console": 10, "registry": 4, "node": 2, "board": 3,
        "Spark's page": 20, "checkpoint": 10, "event log": 2, "broker's data": 5,
    }  # fmt: skip
    assert {kind: least for kind, least in wanted.items() if hunt.looked_at.get(kind, 0) < least} == {}, hunt.looked_at
