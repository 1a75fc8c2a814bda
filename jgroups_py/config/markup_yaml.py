"""Reads YAML, without anchors, into nodes that have their line and column.

A file of its own: PyYAML takes more than a megabyte, and members whose stack is XML do without it.
"""

from __future__ import annotations

import yaml

from jgroups_py.config.markup import MarkupSource, as_utf8
from jgroups_py.errors import ConfigError


class MarkupLoader(yaml.SafeLoader):
    """Refuses anchors. Our files have no use for them, and they can grow without bound."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "anchors and aliases are not accepted", event.start_mark
            )
        return super().compose_node(parent, index)


def compose_yaml(
    source: MarkupSource, language: type[MarkupLoader] = MarkupLoader
) -> yaml.Node | None:
    """Return the document's root node, or None for an empty file. Raise ConfigError with file, line and column.

    Args:
        language: the loader; one of your own may read some values differently.
    """
    text = as_utf8(source).decode()
    try:
        loader = language(text)
        try:
            root: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        tab = "'\\t'" in (error.problem or "")
        raise ConfigError(
            "not YAML: a tab stands where YAML wants spaces"
            if tab
            else f"not YAML: {error.problem}",
            file=source.name,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        raise ConfigError(
            f"not YAML: the character {text[error.position]!a} is not allowed",
            file=source.name,
            line=before.count("\n") + 1,
            column=len(before) - before.rfind("\n"),
        ) from None
    except RecursionError:
        raise ConfigError("not YAML: it is nested too deeply", file=source.name) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}", file=source.name) from None
    return root
