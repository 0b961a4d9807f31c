"""`ssl.principal.mapping.rules`, as Apache Kafka's SslPrincipalMapper reads and applies them."""

from __future__ import annotations

import pytest

from moldau.core.config.principal_rules import parse_principal_rules
from moldau.errors import KafkaError


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:.*/fixed/", "anything", "fixedfixed"),
        ("RULE:^.*$/fixed/", "anything", "fixed"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "CN=A,OU=B,O=c,L=d,ST=e,C=f", "a@b"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U , DEFAULT", "OU=x,cn=abc", "ABC"),
        ("RULE:^CN=(.*?),OU=x$/$1/,DEFAULT", "CN=a,OU=y", "CN=a,OU=y"),
        ("RULE:^CN=(.*?),OU=x$/$1/", "CN=a,OU=y", None),
        ("RULE:CN=a/b/", "CN=a,OU=y", None),
        (r"RULE:CN=(\w+)\/(\w+)/$2-$1/", "CN=a/b", "b-a"),
        ("RULE:CN=(.*)/$1$7/", "CN=a", "a$7"),
        (r"RULE:CN=(.*)/\$$1/", "CN=a", "$a"),
        ("RULE:(CN=a)|(CN=b)/<$2>/", "CN=a", "<>"),
    ],
)
def test_the_first_rule_that_fits_names_the_principal(rules: str, name: str, principal: str | None) -> None:
    assert parse_principal_rules(rules).principal_of(name) == principal


@pytest.mark.parametrize(
    "rules",
    ["deny", "DEFAULT/L", "RULE:", "RULE:/a", "RULE:a/b/X", "RULE:a/b/,DEFAULT deny", "DEFAULT DEFAULT", "RULE:(/a/"],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(KafkaError, match=r"Invalid rule in ssl\.principal\.mapping\.rules"):
        parse_principal_rules(rules)


def test_an_empty_list_of_rules_is_refused() -> None:
    with pytest.raises(KafkaError, match="no certificate would have a principal"):
        parse_principal_rules(" ")
