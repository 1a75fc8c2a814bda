"""Commands that measure end an interrupt with one line, wherever it was raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from jgroups_py.tools import bench
from jgroups_py.tools.bench.ended import end_with

FOLDER = Path(bench.__file__).parent


def interrupted() -> None:
    raise KeyboardInterrupt


def interrupted_in_a_task() -> None:
    async def measure() -> None:
        async with trio.open_nursery(strict_exception_groups=True) as nursery:
            nursery.start_soon(broken)
            nursery.start_soon(ended)
            await trio.sleep_forever()

    async def broken() -> None:
        raise OSError("a member ended")

    async def ended() -> None:
        interrupted()

    trio.run(measure)


@pytest.mark.parametrize("main", [interrupted, interrupted_in_a_task])
def test_an_interrupt_is_one_line(
    main: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        end_with(main)
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "interrupted: nothing is reported\n")


@pytest.mark.parametrize("code", [None, 0, 1])
def test_a_command_ends_with_its_own_code(code: int | None) -> None:
    with pytest.raises(SystemExit) as ended:
        end_with(lambda: code)
    assert ended.value.code == (code or 0)


def test_another_error_is_not_taken_for_an_interrupt() -> None:
    def broken() -> int:
        raise ExceptionGroup("tasks", [ValueError("broken")])

    with pytest.raises(ExceptionGroup):
        end_with(broken)


def test_all_commands_that_measure_end_so() -> None:
    for file in FOLDER.rglob("*.py"):
        assert "sys.exit(main())" not in file.read_text(), file
