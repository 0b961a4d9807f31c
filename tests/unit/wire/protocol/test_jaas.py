"""The grammar of sasl.jaas.config: read as Apache Kafka reads it."""

from __future__ import annotations

import pytest

from moldau.errors import InvalidConfigError
from moldau.wire.protocol.jaas import PLAIN_MODULE, LoginModule, encode_jaas_config, parse_jaas_config


@pytest.mark.parametrize(
    ("written", "options"),
    [
        ('username="admin" password="secret"', {"username": "admin", "password": "secret"}),
        ("username = admin\n\tpassword = b-c_$.9", {"username": "admin", "password": "b-c_$.9"}),
        ("user_alice='se \"cret\"'", {"user_alice": 'se "cret"'}),
        (r'password="a\"b\\c\101\n"', {"password": 'a"b\\cA\n'}),
        ('a=b // to the end of the line; c=d\n e=f /* ; */ g="/*h*/"', {"a": "b", "e": "f", "g": "/*h*/"}),
        ('user_="nobody" user_müller="ü"', {"user_": "nobody", "user_müller": "ü"}),
        ("a=b a=c", {"a": "c"}),
        ("", {}),
    ],
)
def test_options_are_words_and_quoted_texts(written: str, options: dict[str, str]) -> None:
    module = parse_jaas_config(f"{PLAIN_MODULE} required {written};")
    assert (module.name, module.options) == (PLAIN_MODULE, options)


@pytest.mark.parametrize("text", ["", "${env:WORD}", "7", "a\"b'c\\", "\0" + "1", "\r\n\t", "x;//y", "ü\U0001f511"])
def test_what_is_written_is_read_again(text: str) -> None:
    module = LoginModule(PLAIN_MODULE, {"username": "a", "password": text, "last": "1"})
    assert parse_jaas_config(encode_jaas_config(module)) == module


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("", "Login module not specified in JAAS config"),
        ("  // nothing", "Login module not specified in JAAS config"),
        ("a.Module", "Login module control flag not specified in JAAS config"),
        ("a.Module = required;", "Login module control flag is not available in the JAAS config"),
        ("a.Module needed;", "Invalid login module control flag in JAAS config"),
        ("a.Module required a=b", "JAAS config entry not terminated by semi-colon"),
        ("a.Module required a=123;", "Value not specified for a key in JAAS config"),
        ("a.Module required a=-b;", "Value not specified for a key in JAAS config"),
        ("a.Module required a;", "Value not specified for a key in JAAS config"),
        ("a.Module required a=", "Value not specified for a key in JAAS config"),
        ("a.Module required; b.Module required;", "JAAS config property contains 2 login modules, should be 1 module"),
    ],
)
def test_what_is_no_login_module_is_refused_in_the_words_of_kafka(written: str, sentence: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parse_jaas_config(written)
    assert refused.value.message == sentence


def test_no_password_is_shown_by_a_login_module_or_its_refusal() -> None:
    assert "hidden" not in repr(parse_jaas_config('a.Module required password="hidden";'))
    with pytest.raises(InvalidConfigError) as refused:
        parse_jaas_config('a.Module required password="hidden" other;')
    assert "hidden" not in str(refused.value)


def test_a_long_text_is_read_in_time_that_grows_with_it() -> None:
    options = " ".join(f'user_{number}="p{number}"' for number in range(20_000))
    assert len(parse_jaas_config(f"a.Module required {options};").options) == 20_000
    with pytest.raises(InvalidConfigError):
        parse_jaas_config("a.Module required a=" + "/*" * 50_000)
