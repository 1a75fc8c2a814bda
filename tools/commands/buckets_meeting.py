"""Joins an instance and prints progress, for commands of administrators."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from jgroups_py.buckets.administration import open_administrator, wait_for_instance
from jgroups_py.buckets.deployment import Deployment, load_deployment
from jgroups_py.buckets.deployment.application import load_application
from jgroups_py.buckets.node import BucketNode
from jgroups_py.tools.options import Time
from jgroups_py.tools.stack_options import override_options, pairs
from jgroups_py.values.shown import shown

LINE_MAX = 1_000
"""Characters of a line that are shown."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def member_options(command: F) -> F:
    """Add the settings by which this member meets the others; the rest is in the deployment file."""
    return click.option(
        "--for",
        "patience",
        type=Time(),
        default=20.0,
        show_default="20s",
        help="How long to wait for the instance.",
    )(override_options(command))


class Meeting:
    """The values of ``member_options``."""

    def __init__(
        self,
        *,
        settings: tuple[str, ...],
        properties: tuple[str, ...],
        bind_addr: str | None,
        patience: float,
    ) -> None:
        self.patience = patience
        self.options: dict[str, Any] = {
            "attributes": pairs(settings), "properties": pairs(properties),
        }  # fmt: skip
        if bind_addr is not None:
            self.options["bind_addr"] = bind_addr

    async def administrate(
        self,
        file: str,
        work: Callable[[BucketNode, Deployment], Awaitable[T]],
        *,
        classifies: bool = False,
    ) -> T:
        """Join the instance of a deployment file, do something, and leave. ``classifies``: with the application of the file."""
        deployment = load_deployment(file)
        plugin = load_application(deployment) if classifies else None
        async with open_administrator(deployment, plugin=plugin, **self.options) as administrator:
            await wait_for_instance(administrator, self.patience)
            return await work(administrator, deployment)


def tell(text: str) -> None:
    """Print lines for people. Names from others cannot steer the terminal."""
    click.echo("\n".join(shown(line, LINE_MAX) for line in text.splitlines()))
    sys.stdout.flush()
