"""The repository's own rules: packaging, names, lengths, and independence of other places."""

import ast
import configparser
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from parsed import facts_of

ROOT = Path(__file__).resolve().parents[2]
CODE = ("jgroups_py", "protocols", "tools", "stacks")
LONGEST_FILE = 750
LONGER = {
    "protocols/membership/gms/protocol.py": "the order of its parts",
    "protocols/relay/protocol.py": "the order of its parts",
}
"""Files with more lines, and the reason why they are not split (design/architecture.md)."""


@cache
def python_files() -> list[Path]:
    links = {ROOT / "jgroups_py" / name for name in ("protocols", "tools", "stacks")}
    return [
        file
        for folder in CODE
        for file in sorted((ROOT / folder).rglob("*.py"))
        if not links & set(file.parents)
    ]


def all_files() -> list[Path]:
    """Return the files of the package, tests and examples."""
    return [*python_files(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]


def test_setup_cfg_lists_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = set(setup["options"]["packages"].split())
    found = set()
    for file in python_files():
        if file.name == "__init__.py":
            parts = file.parent.relative_to(ROOT).parts
            found.add(".".join(parts if parts[0] == "jgroups_py" else ("jgroups_py", *parts)))
    assert listed == found


def test_data_files_are_packaged() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    data = setup["options.package_data"]
    for folder in ("jgroups_py", "stacks", "protocols", "tools"):
        for file in (ROOT / folder).rglob("*"):
            if not file.is_file() or file.suffix == ".py" or file.is_symlink():
                continue
            if (
                "__pycache__" in file.parts
            ):  # also new compiled files, which have other names for a moment
                continue
            if folder == "jgroups_py" and file.relative_to(ROOT).parts[1] in CODE:
                continue
            parts = file.parent.relative_to(ROOT).parts
            parts = parts if parts[0] == "jgroups_py" else ("jgroups_py", *parts)
            covered = any(
                Path(".".join(parts[:n])).name in data
                and any(
                    Path(*parts[n:], file.name).match(pattern.strip())
                    for pattern in data[".".join(parts[:n])].split(",")
                )
                for n in range(1, len(parts) + 1)
                if ".".join(parts[:n]) in data
            )
            assert covered, f"{file.relative_to(ROOT)} is in no package_data line of setup.cfg"


def test_the_folders_of_the_package_are_relative_links() -> None:
    for name in ("protocols", "tools", "stacks"):
        link = ROOT / "jgroups_py" / name
        assert link.is_symlink() and str(link.readlink()) == f"../{name}"


def test_importing_a_folder_by_its_short_name_is_refused() -> None:
    folders = ("protocols", "tools", "stacks")
    code = f"""
import importlib
for folder in {folders!r}:
    try:
        importlib.import_module(folder)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},  # make test-compiled
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for folder, said in zip(folders, done.stdout.splitlines(), strict=True):
        assert f"import jgroups_py.{folder}" in said


@pytest.mark.parametrize(
    "module",
    [
        "jgroups_py",
        "jgroups_py.aio",
        "jgroups_py.blocking",
        "jgroups_py.driver",
        "jgroups_py.export",
        "jgroups_py.maps",
        "jgroups_py.stack",
        "jgroups_py.stack.protocol",
        "jgroups_py.testing",
        "jgroups_py.testing.strategies",
    ],
)
def test_all_names_the_public_names_that_exist(module: str) -> None:
    loaded = importlib.import_module(module)
    assert loaded.__all__ and len(set(loaded.__all__)) == len(loaded.__all__)
    for name in loaded.__all__:
        assert hasattr(loaded, name), f"{module}.__all__ names {name}"
    assert set(loaded.__all__) <= set(dir(loaded))
    with pytest.raises(AttributeError, match="no_such_name"):
        loaded.no_such_name  # noqa: B018
    if module == "jgroups_py":
        bound = {
            name
            for name, value in vars(loaded).items()
            if not name.startswith("_") and not isinstance(value, type(importlib))
        }
        assert bound - {"annotations"} <= set(loaded.__all__)


def test_every_folder_of_modules_names_its_allowed_imports() -> None:
    rooms = [file for file in python_files() if file.name == "__init__.py"]
    silent = [file for file in rooms if "May import" not in facts_of(file).docstring]
    assert len(rooms) > 60 and silent == []


def test_every_module_states_its_purpose_and_no_function_has_more_than_seventy_lines() -> None:
    facts = {str(file.relative_to(ROOT)): facts_of(file) for file in python_files()}
    assert [name for name, found in facts.items() if not found.docstring] == []
    assert [f"{name}:{one}" for name, found in facts.items() for one in found.long] == []


def test_no_docstring_begins_with_half_a_question() -> None:
    """A sentence such as "What the peer has." lacks its subject and has to be translated."""
    half = re.compile(r'(\A|:\n) *"""(What|Who|Whom|Whose|Whether|Where|How)\b[^?]*?[.:]')
    found = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in all_files()
        for match in half.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_file_is_long_without_a_reason() -> None:
    files = all_files()
    lengths = {file.relative_to(ROOT).as_posix(): file.read_bytes().count(b"\n") for file in files}
    assert {name for name, lines in lengths.items() if lines > LONGEST_FILE} <= set(LONGER)


def test_every_attribute_of_a_protocol_has_a_meaning() -> None:
    """A field of a class of settings has a docstring directly below it."""
    silent = []
    for file in sorted((ROOT / "protocols").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for cls in ast.walk(ast.parse(text)) if "Config" in text else ():
            if not isinstance(cls, ast.ClassDef) or not cls.name.endswith("Config"):
                continue
            for field, after in zip(cls.body, [*cls.body[1:], None], strict=True):
                if not isinstance(field, ast.AnnAssign) or "ClassVar" in ast.unparse(field):
                    continue
                said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                if not said:
                    silent.append(f"{file.name}:{field.lineno} {ast.unparse(field.target)}")
    assert silent == []


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_the_repository_stands_alone() -> None:
    """No file reads or mentions a place outside the repository, except JGroups' own stack files for tests."""
    outside = re.compile(r"\.\./shared(?!/spec/conf)|/work/|/root/|/farm/")
    here = Path(__file__).resolve()
    for file in tracked():
        if file.is_symlink() or not file.is_file() or file.resolve() == here:
            continue
        text = file.read_bytes().decode("utf-8", "ignore")
        found = outside.search(text)
        assert not found, f"{file.relative_to(ROOT)} mentions {found and found[0]}"


def test_make_runs_a_target_whether_a_file_has_its_name_or_not() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (phony,) = re.findall(r"^\.PHONY:(.*)$", text, re.M)
    targets = re.findall(r"^([a-z][a-z-]*):(?!=)", text, re.M)
    assert sorted(phony.split()) == sorted(targets)
