"""No repr shows a secret, whether of a Config, of options, or of values that travel between rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    file
    for folder in ("protocols", "jgroups_py", "tools")
    for file in sorted((ROOT / folder).rglob("*.py"))
]
NAMED = re.compile(
    r"(^|_)(token|password|passwd|secret|credential|secret_key|private_key)s?$", re.I
)
"""Names of fields whose value is a secret. Names of fields for files with secrets end otherwise."""
SPOKEN_OF = re.compile("token|passw|secret|credential|private_key", re.I)
"""Files without these words are not parsed."""
KNOWN = {
    ("jgroups_py/wire/headers.py", "token"),  # AUTH's header: it has already been on the wire
    ("jgroups_py/wire/headers.py", "encrypted_secret_key"),
}


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(one) for one in node.decorator_list) or any(
        "NamedTuple" in ast.unparse(base) or "Struct" in ast.unparse(base) for base in node.bases
    )


def shown_secrets(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and line of each field of a data class that holds a secret and appears in its repr."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not _is_dataclass(node):
            continue
        if any("repr=False" in ast.unparse(one) for one in node.decorator_list):
            continue
        for line in node.body:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            kind = ast.unparse(line.annotation)
            if kind.startswith("ClassVar") or kind in ("int", "Seqno"):  # a number
                continue
            if NAMED.search(line.target.id) or kind == "Secret":
                if line.value is None or "repr=False" not in ast.unparse(line.value):
                    yield line.target.id, line.lineno


def test_no_repr_of_a_data_class_shows_a_secret() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name} needs field(repr=False)"
        for file in FILES
        if SPOKEN_OF.search(text := file.read_text(encoding="utf-8"))
        for name, line in shown_secrets(ast.parse(text))
        if (file.relative_to(ROOT).as_posix(), name) not in KNOWN
    ]
    assert not found, "\n".join(found)


def test_the_check_sees_a_secret_and_passes_over_a_hidden_one() -> None:
    tree = ast.parse(
        "@dataclass\nclass A:\n token: str\n key_password: Secret = field(repr=False)\n token_file: str\n x: Secret"
    )
    assert list(shown_secrets(tree)) == [("token", 3), ("x", 6)]
