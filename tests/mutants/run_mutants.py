"""Plants one fault after the other, and prints those that the tests and the simulator find.

    python tests/mutants/run_mutants.py                        all of the catalogue
    python tests/mutants/run_mutants.py --area relay --only relay-next-only
    python tests/mutants/run_mutants.py --time 60 --pick KEY   as many as fit, chosen by KEY
    python tests/mutants/run_mutants.py --random 100 --seed 7  changes at random places, no catalogue

Exit 0: at least 95 % are found and every survivor is explained in the catalogue; 1: otherwise; 2: it
could not be run: wrong usage, a mutant that does not fit the source, checks that fail without one.
Surviving random changes are listed, for a person to look at, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mutant import BadCatalogue, Mutant, load
from mutant_bench import Bench, Known, NotGreen, Result
from mutant_report import as_json, problems_of, write_table
from random_mutants import drawn

Say = Callable[[str], None]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        catalogue = load()
        if options.random:
            chosen = drawn(catalogue, options.area, options.random, options.seed)
            chosen = [m for m in chosen if not options.only or m.name in options.only]
        else:
            chosen = choose(catalogue, options.area, options.only, options.pick)
    except BadCatalogue as problem:
        return _cannot(str(problem))
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:40} {mutant.fault}")
        return 0
    began = time.monotonic()
    try:
        results = run(chosen, options.workers, options.time, _say, not options.random)
    except (BadCatalogue, NotGreen) as problem:
        return _cannot(str(problem))
    except KeyboardInterrupt:
        return _cannot("interrupted")
    wall = time.monotonic() - began
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(as_json(results, wall), indent=1) + "\n", "utf-8")
    found = sum(result.found for result in results)
    if options.random:
        for result in results:
            if not result.found:
                print(f"survives: {result.mutant.name}  {result.mutant.fault}")
        print(f"{found} of {len(results)} random changes found, {wall:.0f} s (seed {options.seed})")
        return 0
    if options.table:
        write_table(options.table, catalogue, results)
    problems = problems_of(results)
    for line in problems:
        print(line)
    print(
        f"{found} of {len(results)} mutants found, {wall:.0f} s: {'FAIL' if problems else 'PASS'}"
    )
    return 1 if problems else 0


def choose(
    catalogue: Sequence[Mutant], areas: Sequence[str], names: Sequence[str], pick: str
) -> list[Mutant]:
    """Return the requested mutants; with ``pick`` in an order that depends on it, and without known
    survivors, which would take all their checks."""
    for wanted, known in (
        (areas, {m.area for m in catalogue}),
        (names, {m.name for m in catalogue}),
    ):
        if unknown := [one for one in wanted if one not in known]:
            raise BadCatalogue(f"not in the catalogue: {', '.join(unknown)}")
    chosen = [
        mutant
        for mutant in catalogue
        if (not areas and not names) or mutant.area in areas or mutant.name in names
    ]
    if pick:
        chosen = [mutant for mutant in chosen if not mutant.survives]
        chosen.sort(key=lambda m: hashlib.sha256(f"{pick} {m.name}".encode()).digest())
    return chosen


def run(
    mutants: Sequence[Mutant],
    workers: int,
    seconds: float | None,
    say: Say,
    fitted: bool = True,
) -> list[Result]:
    """Look for each mutant, several at the same time. Return results in the order of ``mutants``.

    ``seconds``: no mutant is begun after that time. ``fitted``: see ``Bench``. Raise the errors of ``Bench.look_for``.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(mutants)):
        todo.put(index)
    ends = None if seconds is None else time.monotonic() + seconds
    results: dict[int, Result] = {}
    failures: list[BaseException] = []
    known = Known()

    def work(bench: Bench) -> None:
        while not failures and (ends is None or time.monotonic() < ends):
            try:
                index = todo.get_nowait()
            except queue.Empty:
                return
            try:
                result = results[index] = bench.look_for(mutants[index])
            except BaseException as problem:
                failures.append(problem)
                return
            say(line_of(result, len(results), len(mutants)))

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        count = max(1, min(workers, len(mutants)))
        benches = [Bench(_made(Path(folder) / str(n)), known, fitted) for n in range(count)]
        threads = [threading.Thread(target=work, args=(bench,)) for bench in benches]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
                    if failures:
                        _stop(benches)
        except KeyboardInterrupt as interrupt:
            failures.append(interrupt)
            _stop(benches)
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
    return [results[index] for index in sorted(results)]


def _stop(benches: Sequence[Bench]) -> None:
    for bench in benches:
        bench.stop()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def line_of(result: Result, done: int, total: int) -> str:
    """Return the line about one mutant."""
    if result.found:
        what = f"{'hangs: ' if result.hang else ''}{result.by}"
    else:
        what = "survives, as explained" if result.mutant.survives else "SURVIVES"
    if result.once:
        what += f" (failed only once: {', '.join(result.once)})"
    return f"{done:4} of {total} {result.seconds:6.1f} s  {result.mutant.name}: {what}"


def _say(line: str) -> None:
    print(line, flush=True)


def _cannot(problem: str) -> int:
    print(f"run_mutants: {problem}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--area", action="append", default=[], help="mutants of this area")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant")
    parser.add_argument("--workers", type=_positive, default=2, help="at the same time (2)")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="begin none after that")
    parser.add_argument("--pick", default="", metavar="KEY", help="in an order that KEY decides")
    parser.add_argument("--random", type=_positive, metavar="N", help="N changes at random places")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the result")
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help=f"the table to bring up to date ({Path('design', 'mutants.md')})",
    )
    parser.add_argument("--list", action="store_true", help="say which there are, run nothing")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the copies are removed, too
    sys.exit(main())
