"""The shell of `moldau sql`: reads statements up to `;`, with history, completion and colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.styles import BaseStyle, Style, merge_styles, style_from_pygments_cls
from pygments.lexers.sql import SqlLexer
from pygments.styles import get_style_by_name
from pygments.token import Keyword, Name
from pygments.token import Token as AnyToken

from moldau.errors import MoldauError
from moldau.products.sql.engine.session import session_of
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.tokens import tokenize
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.completion import completions
from moldau.products.sql.terminal.interrupts import Interrupts
from moldau.products.sql.terminal.statements import ScriptError, SqlService, run_text
from moldau.products.sql.terminal.words import KEYWORDS

MAX_HISTORY_BYTES = 1 << 20
"""A longer file of history loses its older half when a shell starts."""
LEAVING = ("exit", "quit")
HELP = """\
Statements end with `;` and may take several lines. Some to begin with:
  SHOW STREAMS;  SHOW TABLES;  SHOW QUERIES;  SHOW TOPICS;  SHOW FUNCTIONS;
  CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
  INSERT INTO clicks VALUES ('ann', 'home');
  SELECT * FROM clicks EMIT CHANGES LIMIT 1;
  CREATE TABLE visits AS SELECT page, count(*) AS n FROM clicks GROUP BY page;
  DESCRIBE clicks EXTENDED;  EXPLAIN SELECT ...;  TERMINATE query_id;  RUN SCRIPT 'path';
Ctrl-C ends a query that shows rows, or drops the line. Ctrl-D, exit and quit leave the shell.
Tab completes. All statements: docs/reference/sql/statements.md"""
_OPEN = ("'", '"', "`", "/*")
_PROMPT = "moldau> "


class Shell:
    """Reads and runs statements until `exit`."""

    def __init__(
        self,
        service: SqlService,
        printer_for: Callable[[Callable[[], bool]], Printer],
        history: Path,
        status: Callable[[], str],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`printer_for`: a printer that asks this function whether to end a live query. `history`: the file. `status`:
        a line below the prompt, asked every second."""
        self._service = service
        self._session = session_of(variables or {}, {})
        self._interrupts = Interrupts()
        self._printer = printer_for(lambda: self._interrupts.is_pressed)
        prepare_history(history)
        self._prompt: PromptSession[str] = PromptSession(
            _PROMPT,
            multiline=True,
            prompt_continuation=" " * (len(_PROMPT) - 2) + "> ",
            history=FileHistory(str(history)),
            completer=_NamesAndWords(service),
            complete_while_typing=False,
            lexer=PygmentsLexer(_Lexer),
            style=_style(),
            key_bindings=_keys(),
            bottom_toolbar=status,
            refresh_interval=1,
        )

    def run(self) -> None:
        """Until `exit` or Ctrl-D."""
        while True:
            try:
                text = self._prompt.prompt().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            word = text.rstrip(";").strip().lower()
            if word in LEAVING:
                return
            if word == "help":
                self._printer.say(HELP)
            elif word:
                self.execute(text)

    def execute(self, text: str) -> None:
        """Runs the statements, and shows the first error."""
        try:
            with self._interrupts:
                run_text(text, self._service, self._session, self._printer.show)
        except ScriptError as error:
            if error.path is not None:
                self._printer.say(f"{error.path}:", "red")
            self._printer.error(error.cause, error.text)
        except MoldauError as error:
            self._printer.error(error)
        except KeyboardInterrupt:
            self._printer.say("interrupted", "red")


def is_whole(text: str) -> bool:
    """Whether Enter ends the input: after `;`, after a word of the shell, and for an empty text."""
    word = text.strip().lower()
    if not word or word in (*LEAVING, "help"):
        return True
    try:
        tokens = tokenize(text)
    except SqlError as error:
        return text.rstrip().endswith(";") and not error.found.startswith(_OPEN)
    return len(tokens) < 2 or tokens[-2].says(";")


def prepare_history(path: Path) -> None:
    """Makes the file for this user alone, and cuts it if it is too long. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    if path.stat().st_size > MAX_HISTORY_BYTES:
        data = path.read_bytes()[-MAX_HISTORY_BYTES // 2 :]
        path.write_bytes(data[max(0, data.find(b"\n# ")) :])


def history_path() -> Path:
    """In the directory of states of XDG."""
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given else Path("~/.local/state").expanduser()
    return state / "moldau" / "sql_history"


class _NamesAndWords(Completer):
    def __init__(self, service: SqlService) -> None:
        self._service = service

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for word, kind, taken in completions(document.text_before_cursor, self._service.catalog):
            yield Completion(word, start_position=-taken, display_meta=kind)


class _Lexer(SqlLexer):  # type: ignore[misc]
    """Pygments' lexer of SQL knows no words of streams."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        for place, kind, value in super().get_tokens_unprocessed(text):
            is_word = kind in Name or kind in Keyword
            yield place, (Keyword if value.upper() in KEYWORDS else AnyToken.Text) if is_word else kind, value


def _style() -> BaseStyle:
    colours = style_from_pygments_cls(get_style_by_name("default"))
    return merge_styles([colours, Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"})])


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys
