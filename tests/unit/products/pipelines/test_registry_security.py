"""A client's requests to a schema registry, and where it sends no secret."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
import yaml

from moldau.client.protocol.secrets import AccessError, Origin
from moldau.errors import KafkaError
from moldau.products.pipelines.core.section import SPEC, Section, SpecError
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.formats.registry_security import RegistrySecurity

HERE = "https://registry.example.org:8081"
PROPERTIES = {"schema.registry.url": HERE, "schema.registry.basic.auth.user.info": "${env:REGISTRY_LOGIN}"}


def section_of(text: str) -> Section:
    return Section("spec.yaml", SPEC, yaml.compose(text))


def test_a_pipeline_refers_to_its_secret_and_tasks_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = section_of(f"registry: {{url: '{HERE}/', basic.auth.user.info: '${{REGISTRY_LOGIN}}'}}")
    registry = Registry.parse(spec, Path())
    assert registry is not None
    assert registry.url == HERE
    monkeypatch.setenv("REGISTRY_LOGIN", "ann:a secret")
    in_a_task = pickle.loads(pickle.dumps(registry))
    assert in_a_task == registry
    expected = base64.b64encode(b"ann:a secret").decode()
    assert in_a_task.security.headers() == {"Authorization": f"Basic {expected}"}
    assert "secret" not in repr(registry)


@pytest.mark.parametrize(
    ("registry", "told"),
    [
        ("{url: 'https://r', basic.auth.user.info: 'ann:secret'}", "a pipeline file holds no secret"),
        ("{url: 'http://registry.example.org', bearer.auth.token: '${TOKEN}'}", "over https:// alone"),
        ("{url: 'https://r', bearer.auth.token: '${A}', basic.auth.user.info: '${B}'}", "cannot both be set"),
        ("{url: 'https://ann:secret@r'}", "without user and password"),
        ("{url: 'https://r', token: '${A}'}", "`token` is not known here"),
    ],
)
def test_a_pipeline_is_refused(registry: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as refused:
        Registry.parse(section_of(f"registry: {registry}"), Path())
    assert "ann:secret" not in str(refused.value).replace(registry, "")


def test_secrets_of_a_profile_go_to_its_own_registry() -> None:
    origin = Origin("/etc/client.properties")
    known = Registry.at(HERE, PROPERTIES, origin, 1)
    assert known.security.user_info is not None
    for other in ("https://elsewhere.example.org:8081", f"{HERE}.elsewhere.example.org", "127.0.0.1:8081"):
        assert Registry.at(other, PROPERTIES, origin, 1).security.user_info is None


def test_an_address_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(AccessError, match=r"schema\.registry\.url takes no user and password") as refused:
        Registry.at("https://ann:secret@registry.example.org", {}, None, 1)
    assert "secret" not in str(refused.value)


def test_a_secret_over_plain_http_stays_on_this_machine() -> None:
    security = RegistrySecurity.from_properties({"bearer.auth.token": "abc"})
    for url in ("http://localhost:8081", "http://127.0.0.1:1", "http://[::1]:8081", "https://registry.example.org"):
        security.check_sent_to(url)
    for url in ("http://registry.example.org", "http://127.0.0.1.example.org:80"):
        with pytest.raises(AccessError, match=r"bearer\.auth\.token is sent over https:// alone"):
            security.check_sent_to(url)


def test_a_token_that_is_no_header_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret\r\nHost: elsewhere")
    security = RegistrySecurity.from_properties({"bearer.auth.token": "${env:TOKEN}"})
    with pytest.raises(KafkaError, match="must be printable ASCII") as refused:
        security.headers()
    assert "secret" not in str(refused.value)
