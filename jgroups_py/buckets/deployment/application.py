"""Loads the plug-in that a deployment file names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.plugin import Plugin


def load_application(deployment: Deployment) -> Plugin:
    """Import ``application: module:name``. The module may lie beside the deployment file. ConfigError, at the key: there is none, it cannot be imported,
    or it is no Plugin."""
    where = "application"
    if not deployment.application:
        raise deployment.wrong(where, "the key is missing: module:name of the plug-in")
    module, _, name = deployment.application.partition(":")
    folder = str(Path(deployment.source).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # any error of the module's code
        raise deployment.wrong(
            where, f"{module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if not isinstance(found, Plugin):
        raise deployment.wrong(
            where, f"{deployment.application} is {type(found).__name__}, not a Plugin"
        )
    return found
