"""A schema registry in memory, over real HTTP: what Confluent's own clients ask of one."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class SchemaRegistry:
    """Runs from the constructor's return to `close`. `asked`: the paths of all requests."""

    def __init__(self) -> None:
        self.schemas: list[dict] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(registry.find)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(lambda *path: registry.add(body, *path))

            def _answer(self, act) -> None:
                path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
                registry.asked.append(self.path)
                found = act(*path)
                code = 404 if found is None else 200
                text = json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def add(self, body: dict, *path: str) -> dict | None:
        """Registers under `subjects/NAME/versions`, finds under `subjects/NAME`."""
        schema = {"schemaType": "AVRO", "references": []} | {
            key: value for key, value in body.items() if key in ("schema", "schemaType", "references") and value
        }
        if schema not in self.schemas:
            if len(path) == 2:
                return None
            self.schemas.append(schema)
        schema_id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(path[1], [])
        if schema_id not in versions:
            versions.append(schema_id)
        return self._told(path[1], versions.index(schema_id))

    def find(self, *path: str) -> dict | None:
        if path[:2] == ("schemas", "ids"):
            known = path[2].isdigit() and 0 < int(path[2]) <= len(self.schemas)
            return self.schemas[int(path[2]) - 1] if known else None
        versions = self.subjects.get(path[1], [])
        if len(path) == 4 and versions:
            return self._told(path[1], -1 if path[3] == "latest" else int(path[3]) - 1)
        return None

    def _told(self, subject: str, place: int) -> dict:
        versions = self.subjects[subject]
        schema_id = versions[place]
        number = versions.index(schema_id) + 1
        return {"subject": subject, "version": number, "id": schema_id, **self.schemas[schema_id - 1]}
