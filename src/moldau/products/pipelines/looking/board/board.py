"""A run in the browser: what its queries do now and did lately, beside `/metrics` and `/status.json`, on a loopback
port."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from types import TracebackType

from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.looking.board.pages import serve_board
from moldau.products.pipelines.looking.board.state import BoardState
from moldau.products.pipelines.page.page import PipelinePage
from moldau.products.pipelines.running.progress import PipelineState


class Board:
    """Serves the board of a page from its constructor to the end of its `with`."""

    def __init__(self, page: PipelinePage, port: int) -> None:
        """`port`: of 127.0.0.1, 0 for a free one. Raises PipelineFailedError for one that is taken."""
        self.state = BoardState(page)
        try:
            self._listening = socket.create_server(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            # Python's own text of such an OSError has the number of the error and the address once more
            reason = str(error) if not isinstance(error, OSError) or error.errno is None else os.strerror(error.errno)
            raise PipelineFailedError(f"127.0.0.1:{port} cannot serve the board: {reason}") from error
        self.port: int = self._listening.getsockname()[1]
        self._served = serve_board(self.state, self._listening)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def show(self, states: Sequence[PipelineState]) -> None:
        self.state.note(states)

    def __enter__(self) -> Board:
        self._served.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._served.__exit__(kind, error, trace)
        self._listening.close()
