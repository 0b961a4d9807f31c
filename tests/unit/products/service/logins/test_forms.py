"""The allowed destinations after a login."""

from __future__ import annotations

import pytest

from moldau.products.service.logins.forms import local_path


@pytest.mark.parametrize("path", ["/", "/topics?q=a", "/groups/a%2Fb", "/topics/orders/records?key=%22x%22"])
def test_a_login_leads_on_to_a_page_of_the_service(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "elsewhere",
    [
        "",
        "//example.org",
        "/\\example.org",
        "https://example.org/",
        "javascript:alert(1)",
        "/a\r\nSet-Cookie: a=b",
        "topics",
        "/login",
        "/logout",
        "/" + 2_000 * "a",
    ],
)
def test_a_login_never_leads_elsewhere(elsewhere: str) -> None:
    assert local_path(elsewhere) == "/"
