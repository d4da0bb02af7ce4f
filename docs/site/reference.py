"""Pages of reference that are made from the code: every command, every option, every public name."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import dpgnn
from dpgnn import methods
from dpgnn.__main__ import build_parser
from dpgnn.core.config import attribute_docs
from dpgnn.study.stated import StudyConfig


def pages() -> dict[str, str]:
    """Place below the sources -> page."""
    return {"code/cli.md": cli(), "code/options.md": options(), "code/api.md": api()}


def cli() -> str:
    """All commands with their arguments, from the parser that reads them."""
    lines = ["# Commands", "", "`dpgnn STAGE ...`; each stage takes `--help`.", ""]
    for name, parser in _subparsers(build_parser()):
        lines += [f"## dpgnn {name}", "", _sentence(parser.description or _help(name)), ""]
        nested = list(_subparsers(parser))
        for words, part in [("", parser), *nested]:
            if words:
                lines += [f"### dpgnn {name} {words}", "", _sentence(part.description or ""), ""]
            lines += _arguments(part)
        if parser.epilog:
            lines += [_sentence(parser.epilog), ""]
    return "\n".join(lines)


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _help(name: str) -> str:
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or ""
    return ""


def _arguments(parser: argparse.ArgumentParser) -> list[str]:
    rows = []
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if action.choices:
            value = " or ".join(str(choice) for choice in action.choices)
        what = _sentence((action.help or "") % _Fields(vars(action), parser.prog))
        given = names or f"`{value}`"
        rows.append(f"| {given} | {_cell(str(value) if names else '')} | {_cell(what)} |")
    if not rows:
        return []
    return ["| argument | value | what |", "| --- | --- | --- |", *rows, ""]


class _Fields(dict[str, Any]):
    """What a help text may name in %(...)s."""

    def __init__(self, fields: dict[str, Any], prog: str) -> None:
        super().__init__(fields, prog=prog)


def options() -> str:
    """The study file's keys and every method's options, from the dataclasses that read them."""
    lines = [
        "# Options",
        "",
        "Keys of a study file, then each method's `options`. Unknown keys are errors.",
        "",
    ]
    lines += ["## A study", "", *_fields(StudyConfig)]
    for name in methods.TABLE:
        method = methods.get(name)
        lines += [f"## {method.title} (`{name}`)", ""]
        what = inspect.getdoc(method.config) or ""
        lines += [_cell(what.split("\n\n")[0].replace("\n", " ")), ""]
        if method.source:
            lines += [f"Source: {method.source}.", ""]
        lines += _fields(method.config)
    return "\n".join(lines)


def _fields(config: type, prefix: str = "") -> list[str]:
    rows = list(_rows(config, prefix))
    if not rows:
        return ["No options.", ""]
    return ["| option | type | default | what |", "| --- | --- | --- | --- |", *rows, ""]


def _rows(config: type, prefix: str) -> Iterator[str]:
    docs, hints = attribute_docs(config), typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        kind = hints[field.name]
        what = _cell(" ".join(docs.get(field.name, "").split()))
        if dataclasses.is_dataclass(kind):
            yield f"| `{prefix}{field.name}` | section | | {what} |"
            yield from _rows(typing.cast(type, kind), f"{prefix}{field.name}.")
        else:
            yield f"| `{prefix}{field.name}` | {_cell(_type(kind))} | {_default(field)} | {what} |"


def _type(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(kind))
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return re.sub(r"\b(?:[a-z_]+\.)+(\w)", r"\1", text).replace(" | ", " or ")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{_cell(repr(field.default))}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{_cell(repr(field.default_factory()))}`"
    return "required"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _sentence(text: str) -> str:
    text = " ".join(text.replace("<", "&lt;").split())
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".?!)" else ".")


def api() -> str:
    """The public names, by autodoc."""
    lines = [
        "# Python",
        "",
        "What a program may build on; everything else may change between versions.",
        "",
    ]
    for name in sorted(dpgnn.__all__):
        value = getattr(dpgnn, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        home = f"{value.__module__}.{value.__qualname__}"
        kind = "autoclass" if inspect.isclass(value) else "autofunction"
        lines += [f"## `dpgnn.{name}`", "", "```{eval-rst}", f".. {kind}:: {home}"]
        lines += ["   :members:"] if kind == "autoclass" else []
        lines += ["```", ""]
    lines += [
        "## `dpgnn.methods`",
        "",
        "```{eval-rst}",
        ".. autofunction:: dpgnn.methods.get",
        "```",
        "",
    ]
    lines += [
        "## `dpgnn.datasets`",
        "",
        "```{eval-rst}",
        ".. autofunction:: dpgnn.data.datasets.load",
    ]
    lines += ["", ".. autofunction:: dpgnn.data.datasets.prepare", "```", ""]
    return "\n".join(lines)
