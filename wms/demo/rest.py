"""The REST client of the demonstration, which uses no other interface of the server."""

import asyncio
import http.client
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit
from uuid import uuid4

from wms.stack.errors import StackError
from wms.wire.archives import ArchiveReader, MemberKind
from wms.wire.protocol import API_V1

_TIMEOUT_S = 30.0

Record = Mapping[str, object]


class DemoRefusedError(StackError):
    """The server refused a request of the demonstration."""


class DemoUnreachableError(StackError):
    """The server did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file for the input sandbox of jobs."""

    file_name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One logged-in user.

    Args:
        host, port: of the web server.
        token: of the user; empty: not logged in.
    """

    host: str
    port: int
    token: str = ""

    @classmethod
    async def begin(cls, *, host: str, port: int, username: str, password: str) -> Self:
        """Log in.

        Raises:
            DemoRefusedError: the server refuses the log-in.
            DemoUnreachableError: the server does not answer.
        """
        answer = await cls(host=host, port=port).post(
            f"{API_V1}auth/token/", {"username": username, "password": password}
        )
        return cls(host=host, port=port, token=text_of(answer, "token"))

    async def get(self, path: str) -> Record:
        """Return a JSON object; errors as for ``begin``."""
        return _record(await self._ask("GET", path))

    async def post(self, path: str, body: Record) -> Record:
        """Send a JSON object and return the answer; errors as for ``begin``."""
        return _record(await self._ask("POST", path, json.dumps(body).encode(), kind="application/json"))

    async def upload(self, file: Upload) -> str:
        """Upload a file and return its name in job descriptions; errors as for ``begin``."""
        boundary = uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file.file_name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        body = head.encode() + file.content + f"\r\n--{boundary}--\r\n".encode()
        answer = await self._ask("POST", f"{API_V1}sandboxes/", body, kind=f"multipart/form-data; boundary={boundary}")
        return text_of(_record(answer), "sandbox")

    async def output(self, job_id: int) -> Mapping[str, str]:
        """Return the output files of a job, and their texts; errors as for ``begin``."""
        packed = await self._ask("GET", f"{API_V1}jobs/{job_id}/output/")
        archive = ArchiveReader(io.BytesIO(packed))
        files = (member for member in archive if member.kind is MemberKind.FILE)
        return {file.name: b"".join(archive.data()).decode(errors="replace") for file in files}

    async def _ask(self, verb: str, path: str, body: bytes | None = None, *, kind: str = "") -> bytes:
        return await asyncio.to_thread(self._ask_and_wait, verb, path, body, kind=kind)

    def _ask_and_wait(self, verb: str, path: str, body: bytes | None, *, kind: str) -> bytes:
        headers = {"Content-Type": kind} if kind else {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        # NB: one connection for each request, as a restarted worker would have closed a kept one.
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(verb, path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise DemoUnreachableError(f"{verb} {path} was not answered: {error!r}") from error
        finally:
            connection.close()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise DemoRefusedError(f"{verb} {path} was refused with {answer.status}: {_detail(content)}")
        return content


def path_of(address: str) -> str:
    """Return path and query of an address."""
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def text_of(record: Record, name: str) -> str:
    """Return the text of that name; empty if it is null or missing."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def number_of(record: Record, name: str) -> float | None:
    """Return the number of that name; None if it is null or missing."""
    value = record.get(name)
    return value if isinstance(value, int | float) else None


def whole_of(record: Record, name: str) -> int | None:
    """Return the whole number of that name; None if it is null or missing."""
    value = record.get(name)
    return value if isinstance(value, int) else None


def records_of(record: Record, name: str) -> list[Record]:
    """Return the list of objects of that name."""
    value = record.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _record(content: bytes) -> Record:
    answer = json.loads(content)
    if not isinstance(answer, dict):
        raise DemoRefusedError(f"The server answered {content[:100]!r}, which is not a JSON object.")
    return answer


def _detail(content: bytes) -> str:
    try:
        answer = json.loads(content)
    except ValueError:
        return content[:200].decode(errors="replace")
    return f"{answer.get('detail')} {answer.get('errors') or ''}".strip() if isinstance(answer, dict) else str(answer)
