"""Sessions: when they end, and their maximum number."""

from __future__ import annotations

from moldau.products.service.logins.sessions import MAX_OF_ONE, MAX_SESSIONS, Session, Sessions
from moldau.products.service.people import How, Person, Role


class Book:
    """Records the users whose sessions ended."""

    def __init__(self, idle_s: float = 100) -> None:
        self.sessions = Sessions(idle_s)
        self.ended: list[str] = []

    def open(self, name: str, now_s: float = 0, ends_s: float = 1_000) -> str:
        person = Person(f"User:{name}", Role.VIEWER, How.PASSWORD)
        return self.sessions.open(Session(person, now_s, ends_s, lambda: self.ended.append(name), lambda: True))


def test_a_session_ends_without_a_request_and_in_any_case() -> None:
    book = Book()
    idle, used = book.open("idle"), book.open("used")
    for now_s in range(0, 1_000, 99):
        session = book.sessions.find(used, now_s)
        assert session is not None
        assert session.person.principal == "User:used"
    assert book.sessions.find(used, 1_000) is None
    assert book.sessions.find(idle, 100) is None
    assert book.ended == ["used", "idle"]
    assert book.sessions.find(used, 0) is None  # for ever


def test_a_sweep_ends_what_nobody_asks_for_any_more() -> None:
    book = Book()
    book.open("alice")
    book.sessions.sweep(99)
    assert len(book.sessions) == 1
    book.sessions.sweep(100)
    assert (len(book.sessions), book.ended) == (0, ["alice"])


def test_logging_out_everywhere_ends_the_sessions_of_one_person() -> None:
    book = Book()
    ids = [book.open(name) for name in ("alice", "bob", "alice")]
    assert book.sessions.close_all("User:alice") == 2
    assert [book.sessions.find(each, 1) is None for each in ids] == [True, False, True]


def test_each_session_has_an_id_and_a_form_token_of_its_own() -> None:
    book = Book()
    ids = {book.open("alice") for _ in range(10)}
    tokens = {session.person.csrf for session in book.sessions.all()}
    assert len(ids) == len(tokens) == 10
    assert not ids & tokens
    assert min(map(len, ids | tokens)) == 43


def test_one_session_too_many_ends_the_one_used_least_recently() -> None:
    book = Book()
    ids = [book.open(f"user {number}") for number in range(MAX_SESSIONS)]
    assert book.sessions.find(ids[0], 1) is not None
    book.open("one more")
    assert len(book.sessions) == MAX_SESSIONS
    assert book.ended == ["user 1"]


def test_a_person_has_a_bounded_number_of_sessions() -> None:
    book = Book()
    ids = [book.open("alice") for _ in range(MAX_OF_ONE + 1)]
    assert len(book.sessions) == MAX_OF_ONE
    assert book.sessions.find(ids[0], 0) is None
