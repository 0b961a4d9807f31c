"""Tokens of a real issuer on the loopback, and of one that misbehaves."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from moldau.client.protocol.access import AccessError, ClusterAccess
from moldau.client.protocol.bearer import (
    JWT_BEARER,
    BearerLogin,
    IssuerLostError,
    LoginTimes,
    NoTokenError,
    bearer_login,
)
from moldau.client.protocol.secrets import Origin
from moldau.errors import KafkaError
from moldau.transport.https_request import TIMEOUT_MS
from moldau.transport.oauth import MAX_TRIES, TokenSource
from moldau.transport.security import check_readable, credentials_of, tokens_of
from moldau.transport.tcp import TCP, TcpDialer
from moldau.wire.protocol.jaas import BEARER_MODULE
from moldau.wire.protocol.sasl_tokens import BearerToken
from tests.support.certificates import Authority, authority
from tests.support.issuer import Client, Fault, Issuer
from tests.support.json_web_tokens import Kind, SigningKey, claims_of, signed

PREFIX = "sasl.oauthbearer."
SECRET = "service-secret"
SHORT_MS = 700
"""Longer than any correct response of this machine takes, and the whole wait of a test for one that never comes."""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer.running() as running:
        yield running


@pytest.fixture(scope="module")
def secured() -> Iterator[Issuer]:
    with Issuer.running(tls=True) as running:
        yield running


def access(url: str, **texts: str) -> ClusterAccess:
    """`client_credentials_client_id` is `sasl.oauthbearer.client.credentials.client.id`; None leaves it out."""
    said = {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        f"{PREFIX}token.endpoint.url": url,
        f"{PREFIX}client.credentials.client.id": "service",
        f"{PREFIX}client.credentials.client.secret": SECRET,
    }
    return ClusterAccess.from_properties({**said, **texts})


class TimedDialer(TcpDialer):
    """Its time passes in pauses, and as a test says."""

    __slots__ = ("now_ms",)

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def pause(self, length_ms: int) -> None:
        self.now_ms += length_ms


def source(url: str, timeout_ms: int = 20_000, dialer: TcpDialer = TCP, **texts: str) -> TokenSource:
    login = access(url, **texts).security.login
    return TokenSource(login, dialer, timeout_ms=timeout_ms)  # type: ignore[arg-type]


def test_a_token_is_asked_for_once_and_kept(issuer: Issuer) -> None:
    tokens = source(issuer.token_url, **{f"{PREFIX}scope": "read write", f"{PREFIX}extensions": "traceId=1,pool=a"})
    first = tokens.bearer()
    assert first == tokens.bearer()
    assert first == BearerToken(tokens.current(), {"traceId": "1", "pool": "a"})
    assert claims_of(first.token)["sub"] == "service"
    assert claims_of(first.token)["scope"] == "read write"
    assert issuer.requests == ["/token"]


def test_all_tasks_of_a_loop_share_one_request(issuer: Issuer) -> None:
    tokens = source(issuer.token_url)

    async def all_at_once() -> set[str]:
        return set(await asyncio.gather(*(tokens.token() for _ in range(20))))

    assert len(asyncio.run(all_at_once())) == 1
    assert issuer.requests == ["/token"]


def test_a_token_that_lasts_no_time_serves_one_login(issuer: Issuer) -> None:
    issuer.lifetime_s = 0
    tokens = source(issuer.token_url)
    assert tokens.current() != tokens.current()


def test_https_needs_a_known_authority(secured: Issuer, tmp_path: Path) -> None:
    ours, other = authority().write(tmp_path), Authority("CN=Other").write(tmp_path, "other")
    assert source(secured.token_url, **{"https.ca.location": str(ours)}).current()
    with pytest.raises(NoTokenError, match=r"not trusted here; name that authority by https\.ca\.location"):
        source(secured.token_url, **{"https.ca.location": str(other)}).current()
    none = tmp_path / "none.pem"
    none.write_text("nothing")
    with pytest.raises(KafkaError, match=r"https\.ca\.location: .* has no certificate in PEM"):
        source(secured.token_url, **{"https.ca.location": str(none)})


@pytest.mark.parametrize("is_url_encoded", ["true", "false"])
def test_a_secret_with_any_character_arrives(issuer: Issuer, is_url_encoded: str) -> None:
    issuer.clients["a client"] = Client("s:p%20+/")
    texts = {"client.credentials.client.id": "a client", "client.credentials.client.secret": "s:p%20+/"}
    said = {f"{PREFIX}{name}": text for name, text in texts.items()}
    assert source(issuer.token_url, **said, **{f"{PREFIX}header.urlencode": is_url_encoded}).current()


def test_an_assertion_in_a_file_takes_the_place_of_a_secret(issuer: Issuer, tmp_path: Path) -> None:
    key = SigningKey("EC")
    issuer.clients["signer"] = Client(key=key)
    claims = {"iss": "signer", "sub": "signer", "aud": issuer.token_url, "exp": int(time.time()) + 600}
    path = tmp_path / "assertion"
    path.write_text(signed(key, claims) + "\n")
    assert claims_of(source(issuer.token_url, **{f"{PREFIX}assertion.file": str(path)}).current())["sub"] == "signer"


BY_ASSERTION = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def signer(issuer: Issuer, path: Path, kind: Kind = "EC", **texts: str) -> TokenSource:
    """A client that signs its assertions; `texts`: without `assertion.`."""
    key = SigningKey(kind)
    issuer.clients["signer"] = Client(key=key)
    path.write_text(key.private_pem)
    said = {
        "private.key.file": str(path),
        "algorithm": key.algorithm.lower(),
        "claim.iss": "signer",
        "claim.sub": "signer",
        "claim.aud": issuer.token_url,
        **texts,
    }
    return source(issuer.token_url, **{f"{PREFIX}assertion.{name}": text for name, text in said.items()})


@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_an_assertion_is_signed_in_place_of_a_secret(issuer: Issuer, tmp_path: Path, kind: Kind) -> None:
    times = {"claim.exp.seconds": "120", "claim.nbf.seconds": "30", "claim.jti.include": "true"}
    tokens = signer(issuer, tmp_path / "key", kind, **times)
    assert claims_of(tokens.current())["sub"] == "signer"
    (form,) = issuer.forms
    assert (form["grant_type"], form["client_id"]) == ("client_credentials", "service")
    assert "assertion" not in form
    claims = claims_of(form["client_assertion"])
    assert {name: claims[name] for name in ("iss", "sub", "aud")} == {
        "iss": "signer",
        "sub": "signer",
        "aud": issuer.token_url,
    }
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"], len(claims["jti"])) == (120, 30, 32)


def test_an_assertion_may_be_the_grant(issuer: Issuer, tmp_path: Path) -> None:
    first = signer(issuer, tmp_path / "key")
    assert first.current()
    by_grant = {f"{PREFIX}jwt.retriever.class": BY_ASSERTION, f"{PREFIX}assertion.file": str(tmp_path / "assertion")}
    (tmp_path / "assertion").write_text(issuer.forms[0]["client_assertion"])
    assert source(issuer.token_url, **by_grant).current()
    assert (issuer.forms[1]["grant_type"], "client_assertion" in issuer.forms[1]) == (JWT_BEARER, False)
    assert "jti" not in claims_of(issuer.forms[1]["assertion"])


@pytest.mark.parametrize("content", ["", "no key", "other kind", "public"])
def test_a_key_that_cannot_sign_is_told_and_not_shown(issuer: Issuer, tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    tokens, rsa = signer(issuer, path), SigningKey("RSA")
    path.write_text({"other kind": rsa.private_pem, "public": rsa.public_pem.decode()}.get(content, content))
    with pytest.raises(
        KafkaError, match=r"assertion\.private\.key\.file: .* is no private key in PEM for ES256"
    ) as told:
        tokens.current()
    assert "BEGIN" not in str(told.value)
    assert not issuer.requests


@pytest.mark.parametrize("passphrase", ["sesame", "wrong", ""])
def test_a_key_with_a_passphrase_is_opened(issuer: Issuer, tmp_path: Path, passphrase: str) -> None:
    path = tmp_path / "key"
    tokens = signer(issuer, path, **({"private.key.passphrase": passphrase} if passphrase else {}))
    private = load_pem_private_key(path.read_bytes(), None)
    encryption = BestAvailableEncryption(b"sesame")
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    if passphrase == "sesame":
        assert tokens.current()
        return
    with pytest.raises(KafkaError, match="does not open it"):
        tokens.current()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"claim.iss": ""}, r"claim\.iss must be set with"),
        ({"algorithm": "HS256"}, "algorithm must be RS256 or ES256"),
        ({"claim.exp.seconds": "86401"}, "from 0 to 86400"),
        ({"claim.nbf.seconds": "-1"}, "must be a number of seconds"),
    ],
)
def test_settings_of_an_assertion_that_cannot_be(
    issuer: Issuer, tmp_path: Path, said: dict[str, str], told: str
) -> None:
    with pytest.raises(AccessError, match=told):
        signer(issuer, tmp_path / "key", **said)


def test_the_settings_of_an_assertion_pass_on_and_other_retrievers_are_refused(tmp_path: Path) -> None:
    said = {
        f"{PREFIX}assertion.private.key.file": str(tmp_path),
        f"{PREFIX}assertion.private.key.passphrase": "${env:PASSPHRASE}",
        f"{PREFIX}client.credentials.client.secret": "",
        f"{PREFIX}assertion.claim.iss": "me",
        f"{PREFIX}assertion.claim.jti.include": "true",
        f"{PREFIX}jwt.retriever.class": BY_ASSERTION,
    }
    login = access("https://issuer/token", **said).security.login
    assert isinstance(login, BearerLogin)
    assert bearer_login(login.properties(), None, None) == login
    assert (login.key is not None and login.key.has_id, login.is_granted_by_assertion) == (True, True)
    for name, text in ((f"{PREFIX}jwt.retriever.class", "x.Y"), (f"{PREFIX}assertion.private.key.file", "")):
        with pytest.raises(AccessError, match=r"jwt\.retriever\.class must be|assertion\.file must be set"):
            access("https://issuer/token", **{**said, name: text})


def test_a_file_with_a_token_is_read_for_each_login(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = source(f"file://{path}")
    for name in ("alice", "bob"):
        token = issuer.token(name)
        path.write_text(token + "\n")
        assert tokens.current() == token
    path.write_text(issuer.token("carol", forgery="expired"))
    with pytest.raises(NoTokenError, match=f"{path} .* has a token that has expired"):
        tokens.current()
    path.write_text("no token\n")
    with pytest.raises(KafkaError, match="characters that a bearer token cannot have"):
        source(f"file://{path}").current()
    for url in ("file:///nowhere", "file:/nowhere"):
        with pytest.raises(KafkaError, match=r"token\.endpoint\.url: cannot read /nowhere"):
            source(url).current()


FAULTS: list[tuple[Fault, type[KafkaError], str]] = [
    ("hang", IssuerLostError, "did not answer in time"),
    ("drip", IssuerLostError, "did not answer in time"),
    ("closed", IssuerLostError, "closed the connection before its answer ended"),
    ("failed", IssuerLostError, r"answered HTTP 500 \(access_denied\)"),
    ("unauthorized", NoTokenError, r"answered HTTP 401 \(access_denied\)"),
    ("redirect", NoTokenError, r"redirects \(HTTP 302\), and redirects are not followed"),
    ("huge", NoTokenError, "answered more than 65536 bytes"),
    ("not_json", NoTokenError, "answered no JSON object"),
    ("empty_object", NoTokenError, "answered without an access_token"),
]


@pytest.mark.parametrize(("fault", "kind", "told"), FAULTS, ids=[row[0] for row in FAULTS])
def test_an_issuer_at_fault_is_named_with_the_setting(
    issuer: Issuer, fault: Fault, kind: type[KafkaError], told: str
) -> None:
    issuer.faults["/token"] = fault
    # the others answer at once: a busy machine must not delay them
    tokens = source(issuer.token_url, timeout_ms=SHORT_MS if fault in ("hang", "drip") else TIMEOUT_MS)
    with pytest.raises(kind, match=told) as refused:
        tokens.current()
    text = str(refused.value)
    assert f"no token for the client service: {issuer.token_url} (sasl.oauthbearer.token.endpoint.url)" in text
    assert SECRET not in text
    assert "x" * 20 not in text
    assert len(issuer.requests) <= MAX_TRIES


def test_a_failed_issuer_is_asked_again_after_pauses_that_grow(issuer: Issuer) -> None:
    dialer = TimedDialer()
    tokens = source(issuer.token_url, dialer=dialer)
    issuer.faults["/token"] = "unauthorized"
    for pause_ms in (100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000):
        asked = len(issuer.requests)
        for later_ms in (0, pause_ms - 1):
            with pytest.raises(NoTokenError):
                tokens.current()
            dialer.now_ms += later_ms
            assert len(issuer.requests) == asked + 1
        dialer.now_ms += 1
    del issuer.faults["/token"]
    assert tokens.current()


def test_settings_say_how_long_the_pauses_are(issuer: Issuer) -> None:
    dialer = TimedDialer()
    said = {"sasl.login.retry.backoff.ms": "30", "sasl.login.retry.backoff.max.ms": "100"}
    tokens = source(issuer.token_url, dialer=dialer, **said)
    issuer.faults["/token"] = "unauthorized"
    for pause_ms in (30, 60, 100, 100):
        for later_ms in (0, pause_ms - 1):
            asked = len(issuer.requests)
            with pytest.raises(NoTokenError):
                tokens.current()
            dialer.now_ms += later_ms
            assert len(issuer.requests) == asked + (later_ms == 0)
        dialer.now_ms += 1
    issuer.faults["/token"] = "failed"
    with pytest.raises(IssuerLostError):
        tokens.current()
    assert issuer.requests[-MAX_TRIES:] == ["/token"] * MAX_TRIES


def test_a_try_ends_at_the_read_timeout_and_another_one_comes(issuer: Issuer) -> None:
    issuer.faults["/token"] = "hang"
    said = {"sasl.login.read.timeout.ms": "100", "sasl.login.connect.timeout.ms": "15000"}
    tokens = source(issuer.token_url, **said, **{"sasl.login.retry.backoff.ms": "1"})
    with pytest.raises(IssuerLostError, match="did not answer in time"):
        tokens.current()
    assert issuer.requests == ["/token"] * MAX_TRIES


def test_times_that_are_no_times_are_refused_and_others_pass_on() -> None:
    for text in ("-1", "soon", "1e3", "1" * 10):
        with pytest.raises(AccessError, match=r"sasl\.login\.read\.timeout\.ms must be a number of milliseconds"):
            access("https://issuer/token", **{"sasl.login.read.timeout.ms": text})
    said = {"sasl.login.read.timeout.ms": "7", "sasl.login.retry.backoff.ms": "8"}
    login = access("https://issuer/token", **said, **{"sasl.login.connect.timeout.ms": "0"}).security.login
    assert isinstance(login, BearerLogin)
    assert login.times == LoginTimes(read_ms=7, backoff_ms=8)


def test_a_token_is_replaced_before_it_expires_and_kept_while_the_issuer_fails(issuer: Issuer) -> None:
    dialer = TimedDialer()
    tokens = source(issuer.token_url, dialer=dialer)
    first = tokens.current()
    dialer.now_ms = 2_800_000  # 0.8 of an hour, less 5 %
    assert tokens.current() == first
    dialer.now_ms = 3_300_000
    second = tokens.current()
    assert second != first
    issuer.faults["/token"] = "failed"
    dialer.now_ms += 3_500_000
    assert tokens.current() == second
    dialer.now_ms += 100_000
    with pytest.raises(IssuerLostError):
        tokens.current()


def test_a_wrong_secret_is_told_apart(issuer: Issuer) -> None:
    tokens = source(issuer.token_url, **{f"{PREFIX}client.credentials.client.secret": "wrong"})
    with pytest.raises(NoTokenError, match=r"answered HTTP 401 \(invalid_client\)"):
        tokens.current()
    assert issuer.requests == ["/token"]


def test_an_issuer_that_is_gone_is_retriable(issuer: Issuer) -> None:
    with Issuer.running() as gone:
        url = gone.token_url
    with pytest.raises(IssuerLostError, match="nothing listens there") as lost:
        source(url).current()
    assert lost.value.is_retriable


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://issuer.example.org/token", "must begin with https://: over http:// everybody on the way reads"),
        ("https://alice:secret@issuer.example.org/token", "must be a URL without a user, a password and a fragment"),
        ("https://issuer.example.org:port/", "is no URL"),
        ("https:///token", "must be a URL that begins with https://"),
        ("https://issuer.example.org/to ken", "must be a URL of printable ASCII characters"),
    ],
)
def test_an_address_that_is_not_asked(url: str, told: str) -> None:
    with pytest.raises(KafkaError, match=told) as refused:
        source(url)
    assert refused.value.name == "INVALID_CONFIG"


# -- as settings


def test_jaas_says_the_same_as_settings(issuer: Issuer) -> None:
    jaas = f'{BEARER_MODULE} required clientId="service" clientSecret="{SECRET}" scope="s" extension_pool="a";'
    by_jaas = ClusterAccess.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            f"{PREFIX}token.endpoint.url": issuer.token_url,
            "sasl.jaas.config": jaas,
        }
    )
    tokens = credentials_of(by_jaas.security)
    assert isinstance(tokens, TokenSource)
    bearer = tokens.bearer()
    assert bearer.extensions == {"pool": "a"}
    assert claims_of(bearer.token)["scope"] == "s"
    assert SECRET not in repr(by_jaas)


def test_a_secret_in_a_file_is_a_reference_for_other_processes(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    own = access(issuer.token_url)
    jaas = f'{BEARER_MODULE} required clientId="service" clientSecret="{SECRET}";'
    path.write_text(f"sasl.jaas.config={jaas}\n")
    said = {
        "bootstrap.servers": own.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        f"{PREFIX}token.endpoint.url": issuer.token_url,
        "sasl.jaas.config": jaas,
    }
    given = ClusterAccess.from_properties(said, origin=Origin(str(path)))
    sent = pickle.loads(pickle.dumps(given))
    again = ClusterAccess.from_properties(
        {name.removeprefix("kafka."): text for name, text in given.spark_options().items()}
    )
    assert sent == given == again
    assert SECRET not in str(given.spark_options())
    check_readable(again)
    tokens = credentials_of(sent.security)
    assert isinstance(tokens, TokenSource)
    assert tokens.current()
    with pytest.raises(AccessError, match="is known to this process alone"):
        pickle.dumps(own)


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        (f"{PREFIX}token.endpoint.url", "must be set for OAUTHBEARER"),
        (f"{PREFIX}client.credentials.client.id", "must be set, or"),
        (f"{PREFIX}client.credentials.client.secret", "must be set"),
    ],
)
def test_a_setting_that_is_missing_is_named(left_out: str, told: str) -> None:
    with pytest.raises(AccessError, match=told) as refused:
        access("https://issuer.example.org/token", **{left_out: ""})
    assert refused.value.name == left_out


def test_an_extension_of_the_wrong_form_is_refused() -> None:
    for text in ("traceId", "auth=x", "trace id=1"):
        with pytest.raises(AccessError) as refused:
            access("https://issuer.example.org/token", **{f"{PREFIX}extensions": text})
        assert refused.value.name == f"{PREFIX}extensions"


def test_a_service_acts_under_the_token_of_a_person() -> None:
    held = ["a.b.c"]
    own = access("https://issuer.example.org/token").under_token(lambda: held[0], "alice")
    assert "a.b.c" not in repr(own)
    login = own.security.login
    tokens = tokens_of(login)  # type: ignore[arg-type]
    assert tokens.bearer() == BearerToken("a.b.c")
    held[0] = "d.e.f"
    assert asyncio.run(tokens.bearer_soon()) == BearerToken("d.e.f")
    with pytest.raises(AccessError, match="a token that this process alone has"):
        pickle.dumps(own)
    with pytest.raises(AccessError, match="must be SASL_SSL or SASL_PLAINTEXT for a token"):
        ClusterAccess("127.0.0.1:9092").under_token(lambda: held[0], "alice")
