"""Looks for planted secrets in bytes, files, HTTP responses, and the system's view of processes."""

from __future__ import annotations

import base64
import http.client
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

PLANTED = "PLANTED"
"""The prefix of each hunted secret."""
MOST_PAGES = 60
MOST_BYTES = 4 << 20
ANSWER_S = 3
LOOK_EVERY_S = 0.2
_LINKS = re.compile(r"""(?:href|src|action|hx-get)=["']([^"'#]+)""")


def forms(secret: str) -> list[bytes]:
    """As it is, in hexadecimal digits, and in base64 at any alignment."""
    data = secret.encode()
    found = [data, data.hex().encode()]
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data)
        found.append(text[4 if before else 0 : -4])
    return found


class Hunt:
    """`secrets`: by the name of the planted value. `found` has a line for each place that shows one."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        assert all(secret.startswith(PLANTED) for secret in secrets.values())
        self._forms = {name: forms(secret) for name, secret in secrets.items()}
        self._forms["any"] = forms(PLANTED)[:2]
        self.found: set[str] = set()
        self.looked_at: dict[str, int] = {}

    def look_at(self, kind: str, place: str, data: bytes) -> None:
        """`kind`: counted in `looked_at`."""
        self.looked_at[kind] = self.looked_at.get(kind, 0) + 1
        self.found |= {
            f"{kind} {place} shows {name}"
            for name, patterns in self._forms.items()
            if any(pattern in data for pattern in patterns)
        }

    def files(self, kind: str, directory: Path) -> None:
        """All files below the directory."""
        for path in (one for one in directory.rglob("*") if one.is_file()):
            self.look_at(kind, str(path), path.read_bytes())

    def pages(self, kind: str, address: str, *paths: str) -> None:
        """The responses of a service at these paths, and at all its own links from there."""
        waiting, seen = [urljoin(address, path) for path in ("/", *paths)], set[str]()
        while waiting and len(seen) < MOST_PAGES:
            url = waiting.pop(0)
            if url in seen or urlsplit(url).netloc != urlsplit(address).netloc:
                continue
            seen.add(url)
            body = answer_of(url)
            self.look_at(kind, url, body)
            waiting += [urljoin(url, link.replace("&amp;", "&")) for link in _LINKS.findall(body.decode("latin-1"))]


def answer_of(url: str) -> bytes:
    """Headers and body, also of an error; of an endless stream, what comes within ANSWER_S."""
    body = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            body += str(answer.headers).encode()
            while len(body) < MOST_BYTES and (part := answer.read1(1 << 16)) and b"text/event-stream" not in body:
                body += part
    except urllib.error.HTTPError as error:
        body += str(error.headers).encode() + error.read()
    except (OSError, http.client.HTTPException):
        pass  # a stream without an event, or a service that is about to end
    return bytes(body)


class ProcessWatch:
    """Watches the command lines and environments of all processes that this one has started, until `stop`. `given`: the
    variables in which a secret was given."""

    def __init__(self, hunt: Hunt, given: Iterable[str], own_pid: int) -> None:
        self._hunt = hunt
        self._given = {name.encode() for name in given}
        self._own_pid = own_pid
        self._is_over = threading.Event()
        self.commands: set[bytes] = set()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            for pid in descendants(self._own_pid):
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return  # it has ended
        self.commands.add(command)
        self._hunt.look_at("command line", command.replace(b"\0", b" ").decode("utf-8", "replace"), command)
        shown = b"\0".join(one for one in variables if one.partition(b"=")[0] not in self._given)
        self._hunt.look_at("environment", command.replace(b"\0", b" ").decode("utf-8", "replace"), shown)


def descendants(pid: int) -> Iterator[int]:
    """Of a process, by the system's table of parents."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(path.parent.name))
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        yield from children
        waiting += children
