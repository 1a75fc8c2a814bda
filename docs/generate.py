"""Writes the reference pages from the sources: protocols with attributes, commands, errors, stacks.

A page is written only when its text has changed, so that a second build is quick.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_origin

import click

import jgroups_py.errors
from jgroups_py.config import settings
from jgroups_py.config.settings import accepted, field_types, value_text
from jgroups_py.protocols import registry
from jgroups_py.stack import Protocol
from jgroups_py.tools.cli import COMMANDS, group

HEAD = "<!-- Generated from the sources by docs/generate.py. -->\n\n"


def write(folder: Path) -> None:
    """Writes all reference pages into ``folder``, which is created."""
    folder.mkdir(exist_ok=True)
    pages = {
        "protocols.md": protocols(),
        "commands.md": commands(),
        "errors.md": errors(),
        "stacks.md": stacks(),
        "api.md": api(),
    }
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != HEAD + text:
            file.write_text(HEAD + text, encoding="utf-8")


# --- protocols


def protocols() -> str:
    """All protocols a stack file may name, each with its attributes."""
    parts = [
        "# Protocols and attributes\n",
        "Names are those of JGroups. A time is written `500ms` or `1.5s`; a bare number is milliseconds. "
        "A size is written `60K` or `4M`. An attribute that a stack file does not set has its default.\n",
    ]
    for name in registry.BUILT:
        cls = registry.find(name)
        parts.append(f"## {name}\n")
        parts.append(_code(inspect.getdoc(inspect.getmodule(cls)) or ""))
        rows = list(_attributes(cls))
        if rows:
            parts.append("| attribute | default | accepted | meaning |\n|---|---|---|---|")
            parts += [f"| `{a}` | {d} | {f} | {m} |" for a, d, f, m in rows]
            parts.append("")
        ignored = sorted({w for base in cls.Config.__mro__ for w in getattr(base, "ignored", ())})
        if ignored:
            words = ", ".join(f"`{word}`" for word in ignored)
            parts.append(f"Accepted from JGroups' files, without effect: {words}.\n")
    return "\n".join(parts) + "\n"


def _attributes(cls: type[Protocol]) -> Iterator[tuple[str, str, str, str]]:
    """Name, default, form, meaning of each attribute, those of the class itself first."""
    meanings: dict[str, str] = {}
    for base in cls.Config.__mro__:
        if dataclasses.is_dataclass(base):
            for name, text in _field_docstrings(base).items():
                meanings.setdefault(name, text)
    types = field_types(cls.Config)
    for field in dataclasses.fields(cls.Config):
        kind = types[field.name]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            shown = "must be set"
        else:
            made = (
                field.default
                if field.default_factory is dataclasses.MISSING
                else field.default_factory()
            )
            default = value_text(made, kind)
            shown = f"`{default}`" if default else "none"
        yield field.name, shown, _cell(accepted(kind)), _cell(meanings.get(field.name, ""))


def _field_docstrings(cls: type[Any]) -> dict[str, str]:
    """The string that follows each field in the source of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    return _docstrings(body.body)


def _docstrings(body: list[ast.stmt]) -> dict[str, str]:
    """The string that follows each name that is set in ``body``."""
    found = {}
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign):
            target: ast.expr = field.target
        elif isinstance(field, ast.Assign):
            target = field.targets[0]
        else:
            continue
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
            if isinstance(after.value, ast.Constant):
                found[target.id] = inspect.cleandoc(str(after.value.value))
    return found


# --- commands


def commands() -> str:
    """Every command's own help."""
    parts = [
        "# Commands\n",
        "Exit codes: 0 fine, 1 an expectation does not hold, 2 the command could not run.\n",
    ]
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        if command is not None:
            parts += _help(command, ["jgroups-py", name])
    return "\n".join(parts) + "\n"


def _help(command: click.Command, words: list[str]) -> list[str]:
    context = click.Context(
        command, info_name=" ".join(words), terminal_width=96, max_content_width=96
    )
    lines = [f"## {' '.join(words)}\n", _code(command.get_help(context))]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            lines += _help(inner, [*words, name])
    return lines


# --- errors


def errors() -> str:
    """Every error with the state that it leaves behind."""
    parts = ["# Errors\n", _code(inspect.getdoc(jgroups_py.errors) or "")]
    for name, cls in vars(jgroups_py.errors).items():
        if (
            isinstance(cls, type)
            and issubclass(cls, Exception)
            and cls.__module__ == jgroups_py.errors.__name__
        ):
            bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            parts += [f"## {name}\n", f"Derives from {bases}.\n", _code(inspect.getdoc(cls) or "")]
    return "\n".join(parts) + "\n"


# --- stacks


def stacks() -> str:
    """The shipped stack files with the comment at their top."""
    parts = [
        "# Stack files that are shipped\n",
        'Each is loaded by its name: `open_channel("udp.xml", ...)`.\n',
    ]
    folder = resources.files("jgroups_py.stacks")
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".xml"):
            text = entry.read_text(encoding="utf-8")
            comment = re.search(r"<!--(.*?)-->", text, re.DOTALL)
            parts.append(f"## {entry.name}\n")
            if comment:
                parts.append(_code(inspect.cleandoc(comment[1])))
    return "\n".join(parts) + "\n"


# --- names that users import

PUBLIC = {
    "jgroups_py": "Channels, calls, values and errors.",
    "jgroups_py.cache": "The tree cache.",
    "jgroups_py.sessions": "HTTP sessions in a tree cache.",
    "jgroups_py.blocking": "The same for threads.",
    "jgroups_py.aio": "The same for asyncio.",
    "jgroups_py.export": "The port through which Spark and other clients read and write.",
    "jgroups_py.stack": "What a protocol of your own is written with.",
    "jgroups_py.testing": "For tests of protocols and of clusters.",
}


_TYPES = _docstrings(ast.parse(inspect.getsource(settings)).body)
"""Types of attributes with their meaning. They are no classes, so they have no docstrings of their own."""


def api() -> str:
    """Every public name with its signature and docstring."""
    parts = ["# What you import\n"]
    for module_name, meaning in PUBLIC.items():
        module = importlib.import_module(module_name)
        parts += [f"## {module_name}\n", f"{meaning}\n"]
        for name in module.__all__:
            value = getattr(module, name)
            if get_origin(value) is Annotated:
                parts += [
                    f"### {module_name.removeprefix('jgroups_py.')}.{name}\n",
                    _code(f"{name}: type of an attribute\n\n{_TYPES[name]}"),
                ]
            elif inspect.isclass(value) or callable(value):
                parts += [
                    f"### {module_name.removeprefix('jgroups_py.')}.{name}\n",
                    _code(_described(name, value)),
                ]
    return "\n".join(parts) + "\n"


def _described(name: str, value: Any) -> str:
    """Signature, docstring, and for a class its public methods."""
    lines = [_signature(name, value), "", inspect.getdoc(value) or ""]
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and (
                inspect.isfunction(function) or isinstance(function, property)
            ):
                said = (inspect.getdoc(function) or "").partition("\n\n")[0]
                head = method if isinstance(function, property) else _signature(method, function)
                lines += ["", f"  {head}", textwrap.indent(said, "      ")]
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    try:
        text = f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        return name
    return f"async {text}" if inspect.iscoroutinefunction(value) else text


def _code(text: str) -> str:
    """Text shown as it stands, with single backticks."""
    text = re.sub(r"``(.+?)``", r"`\1`", text.strip(), flags=re.DOTALL)
    return f"```text\n{text}\n```\n" if text else ""


def _cell(text: str) -> str:
    """Text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
