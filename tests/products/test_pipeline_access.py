"""How a pipeline names a secured cluster, and that none of its output contains a secret."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.running.preflight import PreflightError, check_spec
from moldau.products.pipelines.spec.offline import check_offline
from moldau.products.pipelines.spec.spec import PipelineSpec, describe, load_spec, parse_spec
from moldau.testing import Cluster

CLUSTER = """\
cluster:
  bootstrap.servers: b:9093,a:9093
  security.protocol: SASL_SSL
  ssl.truststore.type: PEM
  ssl.truststore.location: ca.pem
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: ${WHO}
  sasl.password: ${KAFKA_PASSWORD}
"""
REST = """\
source: {topic: orders, format: json, schema: n int}
sql: select n from source
sink: {topic: out}
"""
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required username='${WHO}' password='${KAFKA_PASSWORD}';"
)
PROFILES = """
[profiles.shop]
bootstrap.servers = "b:9093,a:9093"
security.protocol = "SASL_SSL"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = "planted"
"""


def parse(cluster: str, *, rest: str = REST, profile: str | None = None, **parameters: str) -> PipelineSpec:
    text = f"name: shop\n{cluster}{rest}"
    given = {"WHO": "alice", **parameters}
    return parse_spec(text, file_name="p.yaml", directory=Path("/pages"), parameters=given, profile=profile)


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "moldau" / "profiles.toml"
    path.parent.mkdir()
    path.write_text(PROFILES)
    path.chmod(0o600)
    return path


def test_a_secret_is_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "planted")
    by_names = parse(CLUSTER, KAFKA_PASSWORD="planted")
    by_jaas = parse(
        CLUSTER.replace("  sasl.username: ${WHO}\n", "").replace(
            "sasl.password: ${KAFKA_PASSWORD}", f'sasl.jaas.config: "{JAAS}"'
        ),
        KAFKA_PASSWORD="planted",
    )
    for spec in (by_names, by_jaas):
        assert spec.access.bootstrap_servers == "a:9093,b:9093"
        login = spec.access.security.login
        assert login is not None
        assert (login.username, login.password.reference()) == ("alice", "${env:KAFKA_PASSWORD}")
        options = spec.access.spark_options()
        assert options["kafka.ssl.truststore.location"] == "/pages/ca.pem"
        check_offline(spec)
        (query,) = spec.queries
        everything = repr(spec) + str(describe(spec)) + str(query.step.facts()) + str(query.places) + str(options)
        assert "planted" not in everything
        assert b"planted" not in pickle.dumps(spec.access)


def test_a_pipeline_names_an_issuer_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_SECRET", "planted")
    settings = CLUSTER[: CLUSTER.index("  sasl.mechanism")] + (
        "  sasl.mechanism: OAUTHBEARER\n"
        "  sasl.oauthbearer.token.endpoint.url: https://issuer.example.org/token\n"
        "  https.ca.location: issuer.pem\n"
    )
    by_names = settings + (
        "  sasl.oauthbearer.client.credentials.client.id: ${WHO}\n"
        "  sasl.oauthbearer.client.credentials.client.secret: ${CLIENT_SECRET}\n"
    )
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    by_jaas = (
        settings
        + f"""  sasl.jaas.config: "{module} required clientId='${{WHO}}' clientSecret='${{CLIENT_SECRET}}';"\n"""
    )
    for text in (by_names, by_jaas):
        spec = parse(text, CLIENT_SECRET="planted")
        options = spec.access.spark_options()
        assert options["kafka.sasl.oauthbearer.client.credentials.client.id"] == "alice"
        assert options["kafka.sasl.oauthbearer.client.credentials.client.secret"] == "${env:CLIENT_SECRET}"
        assert options["kafka.https.ca.location"] == "/pages/issuer.pem"
        assert "planted" not in repr(spec) + str(options)
        assert b"planted" not in pickle.dumps(spec.access)
    with pytest.raises(SpecError, match="a pipeline file holds no secret"):
        parse(by_names.replace("${CLIENT_SECRET}", "planted"))


def test_a_pipeline_is_read_where_the_secret_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    assert "kafka.sasl.password" in parse(CLUSTER).access.spark_options()


@pytest.mark.parametrize("reference", ["${env:A}", "${file:/etc/c.properties:sasl.password}", "${directory:/run:a}"])
def test_references_are_those_of_kafka(reference: str) -> None:
    access = parse(CLUSTER.replace("${KAFKA_PASSWORD}", reference)).access
    assert access.spark_options()["kafka.sasl.password"] == reference


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("${KAFKA_PASSWORD}", "planted"), "p.yaml:9: `sasl.password` must be ${NAME}"),
        (("${KAFKA_PASSWORD}", "planted${KAFKA_PASSWORD}"), "p.yaml:9: `sasl.password` must be ${NAME}"),
        (("${KAFKA_PASSWORD}", "${GIVEN}"), "p.yaml:9: `sasl.password` must come from the environment"),
        (("sasl.password: ${KAFKA_PASSWORD}", "sasl.jaas.config: planted"), "p.yaml:9: `sasl.jaas.config`"),
        (("${KAFKA_PASSWORD}", "${vault:a:b}"), "p.yaml:9: `sasl.password` "),
        (("SCRAM-SHA-512", "GSSAPI"), "p.yaml:7: `sasl.mechanism` must be one of PLAIN, "),
        (("  sasl.mechanism: SCRAM-SHA-512\n", ""), "p.yaml:3: `cluster` sasl.mechanism must be set"),
        (("sasl.username", "sasl.user"), "p.yaml:8: `sasl.user` is not known here (did you mean `sasl.username`?)"),
        (("b:9093,a:9093", "http://a"), "p.yaml:3: `bootstrap.servers` must be host:port"),
        (("cluster:", "bootstrap_servers: a:1\ncluster:"), "p.yaml:3: `cluster` and `bootstrap_servers`"),
        (("  bootstrap.servers:", "  profile: shop\n  bootstrap.servers:"), "`security.protocol` is not known"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_line(change: tuple[str, str], refused: str) -> None:
    assert change[0] in CLUSTER
    with pytest.raises(SpecError) as error:
        parse(CLUSTER.replace(*change), GIVEN="planted")
    assert refused in str(error.value)
    assert "planted" not in str(error.value)


@pytest.mark.usefixtures("profiles")
def test_a_profile_is_named_by_the_pipeline_or_where_it_is_run() -> None:
    by_spec, by_flag = parse("cluster: {profile: shop}\n"), parse("", profile="shop")
    assert by_spec.access == by_flag.access
    assert by_spec.access.bootstrap_servers == "a:9093,b:9093"
    assert "planted" not in repr(by_spec) + str(by_spec.access.spark_options())
    assert str(parse("bootstrap_servers: c:1\n", profile="shop").access) == "c:1"
    assert str(parse("cluster: {profile: shop, bootstrap.servers: c:1}\n").access) == "c:1"
    with pytest.raises(SpecError, match=r"p.yaml:2: `profile` cannot be read: .* did you mean shop"):
        parse("cluster: {profile: shp}\n")
    with pytest.raises(SpecError, match="`bootstrap_servers` is missing; `cluster` or --profile"):
        parse("")


@pytest.mark.usefixtures("profiles")
def test_a_source_and_a_target_name_clusters_of_their_own() -> None:
    rest = REST.replace("topic: orders", "topic: orders, cluster: {profile: shop}")
    rest = rest.replace("topic: out", "topic: out, cluster: {bootstrap.servers: c:1}")
    (query,) = parse("bootstrap_servers: d:1\n", rest=rest).queries
    assert [str(source.access) for source in query.topics()] == ["a:9093,b:9093"]
    assert str(query.access) == "c:1"


@pytest.mark.usefixtures("profiles")
def test_a_module_names_a_cluster_as_a_pipeline_does(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    module = tmp_path / "shop.py"
    module.write_text(
        "from moldau.spark.pipelines import pipeline, source\n"
        "from pyspark import pipelines as dp\n"
        "pipeline('shop', cluster={'profile': 'shop'})\n"
        "source('orders', topic='orders', format='json', schema='n int')\n"
        "dp.create_sink('out', 'moldau', {'topic': 'out'})\n"
        "@dp.append_flow(target='out')\n"
        "def all():\n"
        "    return spark.readStream.table('orders')\n"
    )
    assert str(load_spec(module).access) == "a:9093,b:9093"


SECRET = "of-alice-alone"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security="sasl_ssl", users={"alice": SECRET}) as running:
        running.create_topic("orders")
        running.create_topic("out")
        yield running


def secured_spec(cluster: Cluster, directory: Path) -> Path:
    properties = cluster.client_properties("alice")
    (directory / "ca.pem").write_text(properties["ssl.truststore.certificates"])
    file = directory / "shop.yaml"
    text = CLUSTER.replace("b:9093,a:9093", cluster.bootstrap_servers).replace("${WHO}", "alice")
    file.write_text(f"name: shop\n{text}{REST}")
    return file


def test_a_pipeline_is_checked_against_the_cluster_that_it_logs_in_to(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_spec(secured_spec(cluster, tmp_path))
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    assert check_spec(spec) == []
    monkeypatch.setenv("KAFKA_PASSWORD", "planted")
    with pytest.raises(PreflightError, match="refused the user alice") as refused:
        check_spec(spec)
    assert "planted" not in str(refused.value)
    monkeypatch.delenv("KAFKA_PASSWORD")
    with pytest.raises(PreflightError, match="the environment variable KAFKA_PASSWORD is not set"):
        check_spec(spec)


def test_the_verbs_that_start_no_spark_log_in(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = secured_spec(cluster, tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    for verb in ("check", "status", "graph"):
        assert main(["pipeline", verb, str(file)]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    monkeypatch.delenv("KAFKA_PASSWORD")
    assert main(["pipeline", "check", str(file)]) == 0


def test_a_profile_of_the_command_line_or_of_the_environment_is_the_cluster(
    cluster: Cluster,
    profiles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "ca.pem").write_text(cluster.client_properties("alice")["ssl.truststore.certificates"])
    profiles.write_text(
        PROFILES.replace("b:9093,a:9093", cluster.bootstrap_servers)
        .replace("PLAIN", "SCRAM-SHA-512")
        .replace('"planted"', f'"{SECRET}"\nssl.ca.location = "{tmp_path}/ca.pem"')
    )
    file = tmp_path / "shop.yaml"
    file.write_text(f"name: shop\n{REST}")
    assert main(["pipeline", "status", str(file)]) == 2
    assert "`bootstrap_servers` is missing" in capsys.readouterr().err
    assert main(["pipeline", "status", str(file), "--profile", "shop"]) == 0, capsys.readouterr().err
    monkeypatch.setenv("MOLDAU_PROFILE", "shop")
    assert main(["pipeline", "status", str(file)]) == 0
    out, err = capsys.readouterr()
    assert SECRET not in out + err
