"""What the description of the API says of every call alike: its errors, its headers, examples and plain names."""

from collections.abc import Iterator
from typing import Any

from jobs.api import shapes
from jobs.api.examples import ANSWERS, BODIES

Described = dict[str, Any]
# By status: its name, when it is answered, and an example (field, code, message).
ERRORS: dict[int, tuple[str, str, tuple[str, str, str]]] = {
    400: (
        "Faulty",
        "Something in the request is wrong; all faults are told together. Nothing was made or changed.",
        ("host_num", "type", "This is text; write a whole number such as 1, without quotes."),
    ),
    401: (
        "NoToken",
        "No valid token: send the header `Authorization: Token …`.",
        ("", "not_authenticated", "Authentication credentials were not provided."),
    ),
    403: (
        "NotAllowed",
        "You may look, but not do this, or your token does not reach so far.",
        ("", "permission_denied", "Only its owner, a lead of its business or an operator may do this."),
    ),
    404: (
        "NotThere",
        "It is not there, or not yours to see.",
        ("", "not_found", "It is not there, or not yours to see."),
    ),
    409: (
        "Conflict",
        "Its state, or an earlier request with this key, forbids it.",
        ("", "already_over", "The task is over already: succeeded."),
    ),
    410: (
        "Gone",
        "It was old and is removed.",
        ("", "removed", "This log was old and was removed on 2030-01-31."),
    ),
    413: (
        "TooLarge",
        "The body is larger than is taken.",
        ("", "too_large", "The body is larger than 256 KiB."),
    ),
    415: (
        "OtherMediaType",
        "The body is not what this takes: send JSON with `Content-Type: application/json`.",
        ("", "unsupported_media_type", 'Unsupported media type "text/plain" in request.'),
    ),
    429: (
        "TooMany",
        "Too many calls within a minute, or too much at once; `Retry-After` says when to come back.",
        ("", "throttled", "Request was throttled. Expected available in 7 seconds."),
    ),
    507: (
        "DiskFull",
        "The platform's disk is full.",
        ("", "disk_full", "The platform's disk is full; nothing was kept."),
    ),
}
COUNT = {
    "RateLimit-Limit": "Calls that this token may make within a minute.",
    "RateLimit-Remaining": "How many of them are left.",
    "RateLimit-Reset": "Seconds until the next minute begins.",
}
LAST_WORDS = ("_create", "_retrieve")  # which the generator puts behind the name of a call


def complete(result: Described, **_kwargs: Any) -> Described:
    """Complete the description; drf-spectacular calls this when it has made one."""
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Errors"] = shapes.ERRORS
    components["responses"] = {name: _error(status) for status, (name, *_rest) in ERRORS.items()}
    for path, method, call in _calls(result):
        call["operationId"] = _named(path, method, call["operationId"])
        _complete(call)
    return result


def _calls(result: Described) -> Iterator[tuple[str, str, Described]]:
    for path, methods in result["paths"].items():
        for method, call in methods.items():
            yield path, method, call


def _named(path: str, method: str, name: str) -> str:
    if path.endswith("/tasks/") and method == "post":
        return "tasks_submit"
    for word in LAST_WORDS:
        name = name.removesuffix(word) if name.count("_") > 1 or word == "_retrieve" else name
    return name


def _complete(call: Described) -> None:
    name, answers = call["operationId"], call["responses"]
    wanted = {400, 401, 403, 404, 429} | {int(status) for status in answers if int(status) >= 400}
    if "requestBody" in call:
        wanted |= {413, 415}
        _exemplify(call["requestBody"]["content"], BODIES.get(name))
    call["responses"] = {status: answer for status, answer in answers.items() if int(status) < 400}
    for answer in call["responses"].values():
        _exemplify(answer.get("content", {}), ANSWERS.get(name))
        answer["headers"] = answer.get("headers", {}) | _headers(COUNT)
    for status in sorted(wanted):
        call["responses"][str(status)] = {"$ref": f"#/components/responses/{ERRORS[status][0]}"}


def _exemplify(content: Described, example: object) -> None:
    if example is not None and "application/json" in content:
        content["application/json"]["example"] = example


def _error(status: int) -> Described:
    _name, says, (field, code, message) = ERRORS[status]
    headers = {429: {"Retry-After": "Seconds to wait.", **COUNT}, 401: {"WWW-Authenticate": "Token"}}
    return {
        "description": says,
        "headers": _headers(headers.get(status, {})),
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Errors"},
                "example": {"errors": [{"field": field, "code": code, "message": message}]},
            }
        },
    }


def _headers(said: dict[str, str]) -> Described:
    return {name: {"description": text, "schema": shapes.TEXT} for name, text in said.items()}
