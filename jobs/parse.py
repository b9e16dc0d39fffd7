"""Read a config document from text: JSON, or the commented sample as people copy it."""

import json
from typing import Any

import yaml

LONGEST = 256 * 1024  # bytes of a document


class Malformed(Exception):
    """The text is no document; `line` and `column` count from 1, 0 where the place is unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


class _Loader(yaml.SafeLoader):
    """YAML as far as JSON goes: no aliases (a short text could mean a huge one), no dates, no tags."""

    # Each first character's patterns, without dates: they stay the text that was written.
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if not tag.endswith((":timestamp", ":merge"))]
        for first, patterns in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose the next node; an alias is an error."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not read",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)


_JSON_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map")}
_Loader.yaml_constructors = {
    tag: build for tag, build in yaml.SafeLoader.yaml_constructors.items() if tag in _JSON_TAGS or tag is None
}


def parse(text: str) -> Any:
    """Return what `text` says as JSON values; raises Malformed."""
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        raise Malformed(f"longer than {LONGEST // 1024} KiB")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except ValueError:
        return _parse_yaml(text)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _parse_yaml(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # this loader builds JSON values only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise Malformed((error.problem or "not understood") + _hint(text), *place) from None
    except yaml.reader.ReaderError as error:
        raise Malformed("a character that is not allowed", text.count("\n", 0, error.position) + 1) from None
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (ValueError, TypeError):  # 5,000 digits; a list as a key
        raise Malformed("a value that is not understood") from None


def _hint(text: str) -> str:
    """Return what is most likely meant where comments are written as other languages have them."""
    slashes = any(
        line.lstrip().startswith("//") or "{ //" in line or ", //" in line for line in text.splitlines()
    )
    return " (comments begin with #, not with //)" if slashes else ""
