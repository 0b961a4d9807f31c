"""A webhook: prints each alert that is posted to it. `python receiver.py PORT`, by default 8099; 0 takes a free one."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

MOST_BYTES = 1_000_000


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > MOST_BYTES:
            self.send_error(413)
            return
        for line in self.rfile.read(length).splitlines():
            alert = json.loads(line)
            at, p95, errors = alert["minute"][11:16], alert["p95_ms"], 100 * alert["errors"]
            print(f"{at} {alert['name']} is {alert['problem']}: p95 {p95:.0f} ms, {errors:.1f} % errors", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The alerts are enough."""


server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8099), Receiver)
print(f"waits at http://127.0.0.1:{server.server_port}/alerts", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass
