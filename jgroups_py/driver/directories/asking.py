"""Answers requests to a directory. Every driver uses it for ``Consult``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.stack.directories import (
    ChangeTable,
    DirectoryRequest,
    ListPods,
    LoadCredentials,
    OpenFolder,
    OpenTable,
    QueryDns,
    ReadFolder,
    ReadPrivate,
    ReadTable,
    RemoveFiles,
    WriteFile,
)
from jgroups_py.stack.ports import Consult, Consulted

Directory = Callable[[DirectoryRequest], Any]
"""Answers a request, perhaps slowly. It raises DirectoryProblem or OSError if it cannot."""


class DirectoryProblem(Exception):
    """The reason why a directory did not answer. ``final``: it will not answer before an operator solves the
    problem."""

    def __init__(self, problem: str, *, final: bool = False) -> None:
        super().__init__(problem)
        self.final = final


KINDS: Final[dict[type, str]] = {
    OpenFolder: "folder",
    ReadFolder: "folder",
    WriteFile: "folder",
    RemoveFiles: "folder",
    QueryDns: "names",
    ListPods: "kubernetes",
    OpenTable: "database",
    ReadTable: "database",
    ChangeTable: "database",
    ReadPrivate: "private",
    LoadCredentials: "credentials",
}
"""The module that answers a request, by its class."""


def real_directory(request: DirectoryRequest) -> Any:
    """Answer from the directory itself. It may be slow: call it in a thread."""
    module = importlib.import_module(f"jgroups_py.driver.directories.{KINDS[type(request)]}")
    return module.answer(request)


def answer_of(directory: Directory, out: Consult) -> Consulted:
    """Return the answer of ``directory``. It never raises: another error is a problem, too."""
    try:
        return Consulted(out.handle, directory(out.request))
    except DirectoryProblem as problem:
        return Consulted(out.handle, None, str(problem), problem.final)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return Consulted(out.handle, None, f"{place}{error.strerror or type(error).__name__}")
    except Exception as error:  # the error's text may hold anything, a password, too
        return Consulted(out.handle, None, f"unexpected {type(error).__name__}")
