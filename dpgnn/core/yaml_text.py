"""Strict reading of YAML: no duplicate keys, no documents much larger than their text, no invalid numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dpgnn.core.checks import shown
from dpgnn.core.config import ConfigError
from dpgnn.core.paths import regular

# without aliases, a text is about as long as its content; nested aliases can double the content at each line
MAX_CHARACTERS = 10_000_000
MAX_DEPTH = 100
# more digits exceed the range of a float
MAX_DIGITS = 300
# of texts, and of the key `<<`
UNCHECKED = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def read_yaml(path: Path, what: str = "") -> Any:
    """Read and parse a YAML file.

    Args:
        path: the file.
        what: a word before its path in messages.

    Raises:
        ConfigError: the file cannot be read, or `parse_yaml` refuses it.
    """
    where = f"{what} {path}".strip()
    try:
        return parse_yaml(regular(path, where).read_text(encoding="utf-8"), where)
    except FileNotFoundError:
        raise ConfigError(f"{where} does not exist") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} must be YAML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{where} must be a file one can read, got {error.strerror}") from None


def parse_yaml(text: str, where: str) -> Any:
    """Parse a YAML text; a duplicate key in a mapping is an error (YAML itself keeps the last).

    Anchors and merge keys (`<<`) work as usual: a mapping's own keys override merged ones.

    Args:
        text: the text.
        where: its file, for messages.

    Raises:
        ConfigError: not YAML; a duplicate key; nested deeper than `MAX_DEPTH`; longer than `MAX_CHARACTERS`
            with expanded aliases; an invalid number or date. Names line and key.
    """
    try:
        loader = _Strict(text, where)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} must be YAML: {' '.join(str(error).split())}") from None


class _Strict(yaml.SafeLoader):
    """Checks nodes during composition, before merged keys are mixed with a mapping's own keys."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self.where = where
        self.path: list[str] = []
        # characters and depth of each finished node, with aliases expanded
        self.sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        name = index.value if isinstance(index, yaml.ScalarNode) else index
        self.path.append("" if name is None else f"[{name}]" if isinstance(name, int) else name)
        mark = self.peek_event().start_mark
        if len(self.path) > MAX_DEPTH:
            self.refuse(mark, f"must be nested {MAX_DEPTH} deep or less; write it flatter")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias and node not in self.sizes:
            self.refuse(mark, "must not hold itself; drop the alias")
        if not is_alias and node is not None:
            self.measure(node, mark)
        self.path.pop()
        return node

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                rule = f"must stand once, and it stands on line {lines[name]} too; drop one"
                raise ConfigError(f"{self.where}, line {line}: key {shown(key.value)} {rule}")
            lines[name] = line
        return node

    def measure(self, node: yaml.Node, mark: yaml.Mark) -> None:
        """Record a node's size and depth; refuse one that is too large, too deep, or contains itself."""
        if isinstance(node, yaml.ScalarNode):
            self.check_scalar(node, mark)
            self.sizes[node] = len(node.value) + 1, 1
            return
        pairs = isinstance(node, yaml.MappingNode)
        items = [item for pair in node.value for item in pair] if pairs else node.value
        found = [self.sizes[item] for item in items]
        size, depth = 1 + sum(s for s, _ in found), 1 + max((d for _, d in found), default=0)
        if size > MAX_CHARACTERS or depth > MAX_DEPTH:
            rule = (
                f"must make {MAX_CHARACTERS} characters or fewer, nested {MAX_DEPTH} deep or less"
            )
            self.refuse(mark, f"{rule}, with its aliases written out; nest fewer aliases")
        self.sizes[node] = size, depth

    def check_scalar(self, node: yaml.ScalarNode, mark: yaml.Mark) -> None:
        """Refuse a number, date or other value that is invalid for its tag."""
        if node.tag in UNCHECKED:
            return
        kind = node.tag.rpartition(":")[2]
        if kind == "int" and len(node.value) > MAX_DIGITS:
            self.refuse(mark, f"must be a number of {MAX_DIGITS} digits or fewer", node.value)
        try:
            self.construct_object(node)
        except yaml.YAMLError:
            raise
        except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as error:
            self.refuse(mark, f"must be a {kind} ({error}), or in quotes to be a text", node.value)

    def refuse(self, mark: yaml.Mark, rule: str, value: object = None) -> None:
        """Raise a ConfigError that names file, line and key."""
        key = ".".join(filter(None, self.path)).replace(".[", "[")
        got = "" if value is None else f", got {shown(value)}"
        named = f": {key[:200]}" if key else ":"
        raise ConfigError(f"{self.where}, line {mark.line + 1}{named} {rule}{got}")
