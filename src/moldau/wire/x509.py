"""The fields of an X.509 certificate (DER) that Moldau reads: subject, issuer, hosts and validity.

Not `ssl.SSLSocket.getpeercert()`: it loses the types of values, which Java needs to write attributes without a keyword
in RFC 2253, and it cannot read our own certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from moldau.errors import ProtocolError

_ISSUER: Final = 2
_VALIDITY: Final = 3
_SUBJECT: Final = 4
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_OBJECT_IDENTIFIER: Final = 0x06
_EXTENSIONS: Final = 0xA3
_DNS_NAME: Final = 0x82
_IP_ADDRESS: Final = 0x87
_ALTERNATIVE_NAME: Final = "2.5.29.17"
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
"""Types that Java writes as text, all read as UTF-8: UTF8String, PrintableString, TeletexString, IA5String,
GeneralString, BMPString."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The keywords of RFC 2253, which are all that Java's `X500Principal.getName()` uses."""
_ESCAPED: Final = ',=+<>#;"\\'


def subject_name(certificate: bytes) -> str:
    """The subject as Java's `X500Principal.getName()` writes it (RFC 2253), by which Kafka names a client:
    "CN=alice,O=Example". Raises ProtocolError for bytes that are no certificate."""
    return _name(_fields(certificate)[_SUBJECT])


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The subject's alternative names, each as it stands in the certificate (DER): to compare two certificates. Raises
    ProtocolError for bytes that are no certificate."""
    for kind, extensions in _fields(certificate)[_SUBJECT + 1 :]:
        if kind != _EXTENSIONS:
            continue
        for extension in _elements(_content(next(_elements(extensions), (0, b"")), _SEQUENCE)):
            (_, identifier), *_, (_, value) = _elements(_content(extension, _SEQUENCE))
            if _dotted(identifier) == _ALTERNATIVE_NAME:
                names = next(_elements(value), (0, b""))
                return frozenset(bytes((each,)) + name for each, name in _elements(_content(names, _SEQUENCE)))
    return frozenset()


def alternative_name_text(name: bytes) -> str:
    """One of `alternative_names`, for people: a DNS name or an address as such, any other in hexadecimal."""
    kind, value = name[0], name[1:]
    if kind == _DNS_NAME:
        return value.decode("latin-1")
    if kind == _IP_ADDRESS and len(value) in (4, 16):
        return str(ip_address(value))
    return name.hex()


def issuer_name(certificate: bytes) -> str:
    """The issuer, as `subject_name`."""
    return _name(_fields(certificate)[_ISSUER])


def not_before_ms(certificate: bytes) -> int:
    """The beginning of the validity, as `not_after_ms`."""
    return _moment_ms(_pair(_content(_fields(certificate)[_VALIDITY], _SEQUENCE))[0])


def not_after_ms(certificate: bytes) -> int:
    """The end of the validity in ms since the epoch. Raises ProtocolError for bytes that are no certificate."""
    return _moment_ms(_pair(_content(_fields(certificate)[_VALIDITY], _SEQUENCE))[1])


def _moment_ms(element: tuple[int, bytes]) -> int:
    kind, text = element
    digits = text.decode("latin-1").removesuffix("Z")
    if kind == _UTC_TIME:  # a year of two digits: 1950 to 2049 (RFC 5280)
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    try:
        moment = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise ProtocolError("this is no X.509 certificate") from error
    return int(moment.timestamp() * 1_000)


def _fields(certificate: bytes) -> list[tuple[int, bytes]]:
    """Serial number, algorithm, issuer, validity, subject, and the following fields."""
    try:
        whole = next(_elements(certificate))
        signed = next(_elements(_content(whole, _SEQUENCE)))
        fields = list(_elements(_content(signed, _SEQUENCE)))
    except StopIteration as error:
        raise ProtocolError("this is no X.509 certificate") from error
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) <= _SUBJECT:
        raise ProtocolError("this is no X.509 certificate")
    return fields


def _pair(data: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    elements = list(_elements(data))
    if len(elements) != 2:
        raise ProtocolError("this is no X.509 certificate")
    return elements[0], elements[1]


def _content(element: tuple[int, bytes], kind: int) -> bytes:
    if element[0] != kind:
        raise ProtocolError("this is no X.509 certificate")
    return element[1]


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element of `data` (DER)."""
    position = 0
    while position < len(data):
        if position + 2 > len(data):
            raise ProtocolError("this is no X.509 certificate")
        kind, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[position : position + size], "big")
            position += size
        if position + length > len(data):
            raise ProtocolError("this is no X.509 certificate")
        yield kind, data[position : position + length]
        position += length


def _name(subject: tuple[int, bytes]) -> str:
    """The name as text, last part first, as in RFC 2253."""
    parts = [_part(element) for element in _elements(_content(subject, _SEQUENCE))]
    return ",".join(reversed(parts))


def _part(element: tuple[int, bytes]) -> str:
    return "+".join(_attribute(_content(each, _SEQUENCE)) for each in _elements(_content(element, _SET)))


def _attribute(data: bytes) -> str:
    (kind, identifier), (value_kind, value) = _pair(data)
    if kind != _OBJECT_IDENTIFIER:
        raise ProtocolError("this is no X.509 certificate")
    dotted = _dotted(identifier)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or value_kind not in _TEXTS:
        return f"{keyword or dotted}=#{_encoded(value_kind, value).hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _encoded(kind: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes((kind, size)) + value
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((kind, 0x80 | len(length))) + length + value


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    begun = len(escaped) - len(escaped.lstrip(" "))
    ended = len(escaped.rstrip(" "))
    if begun == len(escaped):
        return "\\ " * len(escaped)
    return "\\ " * begun + escaped[begun:ended] + "\\ " * (len(escaped) - ended)


def _dotted(identifier: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ProtocolError("this is no X.509 certificate")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
