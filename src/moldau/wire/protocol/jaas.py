"""The grammar of `sasl.jaas.config`: login module, control flag and options (KIP-85).

Words, quotes and comments are those of Java's StreamTokenizer with Kafka's settings, so that texts have the same
meaning as in Apache Kafka: a bare value that begins with a digit is a number there, and not a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from moldau.errors import KafkaError, kafka_error

BEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_BLANK = re.compile(r"(?:[\x00-\x20]|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)|-?\.(?![0-9])")
_WORD = re.compile(r"[A-Za-z_$\u00a0-\U0010ffff][A-Za-z_$\u00a0-\U0010ffff0-9.-]*")
_QUOTED = re.compile(r"""(["'])((?:\\[^\r\n]|(?!\1)[^\\\r\n])*)\\?(?:\1|(?=[\r\n])|\Z)""")
_SPECIAL = re.compile(r'[\x00-\x1f"\\]')
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[^\r\n])")
_NAMED_ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(msgspec.Struct, frozen=True):
    """One entry. `options` may have passwords and are not shown."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, {len(self.options)} options)"


class _Token(msgspec.Struct, frozen=True):
    text: str
    is_word: bool
    """A bare or quoted word; else a number or a single character."""


def parse_jaas_config(text: str) -> LoginModule:
    """The single login module of `text`. Raises INVALID_CONFIG in Kafka's words, without the value of an option."""
    tokens = _tokens(text)
    modules = [_module(token, tokens) for token in tokens]
    if not modules:
        raise _invalid("Login module not specified in JAAS config")
    if len(modules) > 1:
        raise _invalid(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def encode_jaas_config(module: LoginModule) -> str:
    """The text for `parse_jaas_config` and Kafka's clients. It has the secrets of the options."""
    options = "".join(f' {key}="{_SPECIAL.sub(_escaped, value)}"' for key, value in module.options.items())
    return f"{module.name} required{options};"


def _module(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if flag is None:
        raise _invalid("Login module control flag not specified in JAAS config")
    if not flag.is_word:
        raise _invalid("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _FLAGS:
        # Kafka repeats this word and the key below, which may be parts of a password
        raise _invalid("Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    for key in tokens:
        if key == _Token(";", is_word=False):
            return LoginModule(first.text, options)
        equals = next(tokens, None)
        value = next(tokens, None)
        if equals != _Token("=", is_word=False) or value is None or not value.is_word:
            shown = f"key '{key.text}'" if key.text in ("username", "password") else "a key"
            raise _invalid(f"Value not specified for {shown} in JAAS config")
        options[key.text] = value.text
    raise _invalid("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    position = _end(_BLANK.match(text, 0))
    while position < len(text):
        if quoted := _QUOTED.match(text, position):
            position = quoted.end()
            yield _Token(_ESCAPE.sub(_unescaped, quoted[2]), is_word=True)
        elif number := _NUMBER.match(text, position):
            position = number.end()
            yield _Token(number[0], is_word=False)
        elif word := _WORD.match(text, position):
            position = word.end()
            yield _Token(word[0], is_word=True)
        else:
            position += 1
            yield _Token(text[position - 1], is_word=False)
        position = _end(_BLANK.match(text, position))


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\{ord(character):03o}" if character < " " else f"\\{character}"


def _end(match: re.Match[str] | None) -> int:
    return 0 if match is None else match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _NAMED_ESCAPES.get(code, code)


def _invalid(message: str) -> KafkaError:
    return kafka_error("INVALID_CONFIG", message)
