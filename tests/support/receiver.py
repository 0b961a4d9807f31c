"""An HTTP server that keeps POSTed bodies."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_HTTP = 0


class Receiver(ThreadingHTTPServer):
    """Keeps POSTed bodies. `answers`: the statuses of the next requests, before 200; rows with `bad` get 400.
    `retry_after`: a header of each response but 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/in"
        self.answers: list[int] = []
        self.retry_after = ""
        self.requests: list[tuple[dict[str, str], str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status = self.server.answers.pop(0) if self.server.answers else 400 if "bad" in body else 200
        if status == 200:
            self.server.requests.append((dict(self.headers), body))
        if status == NO_HTTP:
            self.wfile.write(b"what?\r\n\r\n")
            return
        self.send_response(status)
        if status != 200 and self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        if status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass
