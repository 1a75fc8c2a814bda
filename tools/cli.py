"""The command ``jgroups-py``: a group of commands, each imported when it is called.

A command is a click command in a module of its own, listed in ``COMMANDS``. Those that only developers of
jgroups_py need are in the group ``dev``. A command reports a mistake by raising a JGroupsError (one line on
standard error, exit 2) and ends with another code by returning it. ``--verbose``, before or after the
command's name, shows tracebacks and the stack's log. ``--json-log`` makes its lines JSON.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

import click

from jgroups_py.errors import JGroupsError
from jgroups_py.json_log import JsonFormatter
from jgroups_py.tools.dev import group as dev_group
from jgroups_py.tools.lazy_group import LazyGroup
from jgroups_py.tools.options import examples
from jgroups_py.values.native import compiled_modules
from jgroups_py.values.shown import shown

COMMANDS: Final = {
    "buckets": "jgroups_py.tools.commands.buckets:buckets",
    "cache": "jgroups_py.tools.commands.cache:cache",
    "chat": "jgroups_py.tools.commands.chat:chat",
    "decode": "jgroups_py.tools.commands.wire:decode",
    "detect": "jgroups_py.tools.commands.detect:detect",
    "dev": "jgroups_py.tools.dev.group:dev",
    "doctor": "jgroups_py.tools.commands.doctor:doctor",
    "drill": "jgroups_py.tools.commands.drill:drill",
    "encode": "jgroups_py.tools.commands.wire:encode",
    "export": "jgroups_py.tools.commands.export:export",
    "flight": "jgroups_py.tools.commands.flight:flight",
    "health": "jgroups_py.tools.commands.health:health",
    "keys": "jgroups_py.tools.commands.keys:keys",
    "maps": "jgroups_py.tools.commands.maps:maps",
    "metrics": "jgroups_py.tools.commands.metrics:metrics",
    "mperf": "jgroups_py.tools.commands.mperf:mperf",
    "probe": "jgroups_py.tools.commands.probe:probe",
    "router": "jgroups_py.tools.commands.router:router",
    "rpcperf": "jgroups_py.tools.commands.rpcperf:rpcperf",
    "spark": "jgroups_py.tools.commands.spark:spark",
    "top": "jgroups_py.tools.commands.top:top",
    "validate": "jgroups_py.tools.commands.validate:validate",
}
"""Name -> ``module:function``."""

ANYWHERE: Final = ("--verbose", "--json-log")
"""Options that stand before or after the command's name."""

LINE_MAX: Final = 20_000
"""The most characters of a complaint."""
INTERRUPTED: Final = 130  # the exit code that a shell shows for a command that SIGINT ended
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143


class PipeClosed(Exception):
    """The reader of our output has closed the pipe."""


class Commands(LazyGroup):
    """The top of the command line: it tells a closed pipe from a verdict."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise PipeClosed where click and rich would end with 1, which is a verdict here."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            if isinstance(error.__context__, BrokenPipeError):
                raise PipeClosed from None
            raise
        except Exception as error:
            if all(isinstance(one, BrokenPipeError) for one in _leaves(error)):
                raise PipeClosed from None
            raise


def _show_version(ctx: click.Context) -> None:
    """Print the version and the number of compiled modules, and end."""
    modules = [name.removeprefix("jgroups_py.") for name in compiled_modules()]
    print("jgroups-py", importlib.metadata.version("jgroups_py"))
    print(f"compiled: {', '.join(modules)}" if modules else "plain Python, nothing is compiled")
    ctx.exit()


@click.group(
    cls=Commands,
    name="jgroups-py",
    commands_at=COMMANDS,
    hidden_at=dev_group.COMMANDS,  # their names from the time before ``dev``
    epilog=examples("jgroups-py chat --cluster demo", "jgroups-py drill nyc-sfo"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _show_version(ctx) if asked else None,
    help="Show the version, and which modules run compiled, and exit.",
)
@click.option("--verbose", is_flag=True, help="Show tracebacks and the stack's log.")
@click.option("--json-log", is_flag=True, help="Log lines are JSON.")
def group(verbose: bool, json_log: bool) -> None:
    """Reliable group communication: stacks, caches and drills."""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``jgroups-py``; ends the process with the command's exit code."""
    terminated = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        # As SIGINT, at which Python and trio let running code clean up.
        nonlocal terminated
        terminated = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt  # a shell started us in the background
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    code = run(sys.argv[1:] if args is None else args)
    sys.exit(TERMINATED if terminated and code == INTERRUPTED else code)


def run(args: Sequence[str]) -> int:
    """Run a command line and return its exit code: 0, that of the command, or 2 after an error."""
    end = args.index("--") if "--" in args else len(args)
    verbose = "--verbose" in args[:end]
    _log_to_standard_error(verbose, as_json="--json-log" in args[:end])
    arguments = [*(a for a in args[:end] if a not in ANYWHERE), *args[end:]] or ["--help"]
    try:
        result = group.main(arguments, prog_name="jgroups-py", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help, on standard error
        return error.exit_code
    except click.ClickException as error:
        return _complain(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (PipeClosed, BrokenPipeError):
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # a flush would have no reader
        return BROKEN_PIPE
    except Exception as error:
        if verbose:
            traceback.print_exc()
        return _complain("; ".join(dict.fromkeys(_lines(error))))


def _log_to_standard_error(verbose: bool, *, as_json: bool) -> None:
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else plain)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _lines(error: BaseException) -> Iterator[str]:
    """Yield one line for each error in a group. An error from outside this library is named by its class."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _lines(inner)
    elif isinstance(error, JGroupsError):
        yield str(error)
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        yield f"{place}{error.strerror or error}"
    else:
        yield f"unexpected {type(error).__name__}: {error} (--verbose shows where)"


def _complain(problem: str) -> int:
    print(f"jgroups-py: {shown(' '.join(problem.split()), LINE_MAX)}", file=sys.stderr)
    return 2
