"""The subject of a certificate in Java's format, and the end of its validity."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import ProtocolError
from moldau.wire.x509 import not_after_ms, subject_name
from tests.support.certificates import authority, email_name


@pytest.mark.parametrize(
    "name",
    ["CN=alice", "CN=alice,OU=Users,O=Example,L=Prag,ST=CZ,C=CZ", "CN=a+UID=b,DC=example,DC=org", "STREET=s,CN=ž"],
)
def test_a_subject_is_written_last_part_first(name: str) -> None:
    assert subject_name(authority().issue(name).der) == name


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (_ASN1Type.PrintableString, "CN=plain"),
        (_ASN1Type.T61String, "CN=plain"),
        (_ASN1Type.BMPString, "CN=\\00p\\00l\\00a\\00i\\00n"),
        (_ASN1Type.UniversalString, "CN=#1c14000000700000006c00000061000000690000006e"),
    ],
)
def test_each_type_of_text_is_written_as_java_does(kind: _ASN1Type, written: str) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plain", _type=kind)])
    assert subject_name(authority().issue(name).der) == written


def test_an_attribute_without_a_keyword_is_written_with_its_bytes() -> None:
    der = authority().issue(email_name("m@example.org")).der
    assert subject_name(der) == "1.2.840.113549.1.9.1=#160d6d406578616d706c652e6f7267,CN=m"


@pytest.mark.parametrize(
    ("value", "written"),
    [("a\\,b", "CN=a\\,b"), ('x\\"y', 'CN=x\\"y'), ("a=b", "CN=a\\=b"), ("\\#a", "CN=\\#a"), ("\\ a\\ ", "CN=\\ a\\ ")],
)
def test_characters_with_a_meaning_are_escaped(value: str, written: str) -> None:
    assert subject_name(authority().issue(f"CN={value}").der) == written


@pytest.mark.parametrize("days", [1, 90, 20_000])
def test_the_end_of_a_certificate(days: int) -> None:
    issued = authority().issue("CN=a", days=days)
    assert not_after_ms(issued.der) == int(issued.certificate.not_valid_after_utc.timestamp()) * 1_000


@given(st.binary(max_size=60))
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    for read in (subject_name, not_after_ms):
        with pytest.raises(ProtocolError):
            read(data)


@given(st.data())
def test_a_damaged_certificate_is_read_or_refused(data: st.DataObject) -> None:
    der = bytearray(authority().own.der)
    place = data.draw(st.integers(0, len(der) - 1))
    der[place] = data.draw(st.integers(0, 255))
    for read in (subject_name, not_after_ms):
        try:
            read(bytes(der[: data.draw(st.integers(0, len(der)))]))
        except ProtocolError:
            continue
