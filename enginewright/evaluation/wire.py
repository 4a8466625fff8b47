"""Plain requests to a server, outside of anything timed."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from enginewright.errors import EngineError


def call(
    base_url: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    timeout_seconds: float,
    api_key: str | None = None,
) -> dict[str, Any]:
    """The JSON object that a server answers: GET without a body, POST with one.

    Raises: EngineError if it cannot be reached, answers an error, or anything but a JSON object.
    """
    where = f"{base_url}{path}"
    parts = urlsplit(where)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.netloc, timeout=timeout_seconds)
    headers = {"Content-Type": "application/json"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    try:
        payload = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", parts.path, payload, headers)
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(f"{where}: cannot be reached: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    quoted = content[:500].decode("utf-8", errors="replace")
    if response.status != 200:
        raise EngineError(f"{where}: HTTP {response.status}: {quoted}")
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise EngineError(f"{where}: the answer is no JSON: {quoted}") from error
    if not isinstance(answer, dict):
        raise EngineError(f"{where}: the answer is no JSON object: {quoted}")
    return answer


def first_model(base_url: str, *, timeout_seconds: float, api_key: str | None = None) -> str:
    """The name of the first model that a server lists.

    Raises: EngineError if it lists none.
    """
    answer = call(base_url, "/v1/models", timeout_seconds=timeout_seconds, api_key=api_key)
    try:
        return str(answer["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise EngineError(f"{base_url}/v1/models: lists no model: {answer!r:.300}") from error
