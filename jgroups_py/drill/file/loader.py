"""Drill files: YAML to ``model.Drill``.

Every mistake is a ``ConfigError`` that names file, line, column, the key, the value and, for an unknown key, the
nearest known one.

YAML takes ``key: >= 3s`` for the start of a folded text. Expectations are written that way, so the
scanner here reads ``>=`` as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from jgroups_py.config.markup import MarkupSource
from jgroups_py.config.markup_yaml import MarkupLoader
from jgroups_py.config.model import nearest
from jgroups_py.config.yaml_reader import YamlReader, place_of, read_bounded, shown
from jgroups_py.drill.file import values
from jgroups_py.drill.file.model import (
    FALLEN,
    MEMBERS_MAX,
    PRIMARY_ONLY,
    ROLES,
    Bridge,
    Drill,
    DrillEvent,
    DrillSite,
    DrillTraffic,
    Expectation,
    FilePlace,
    NetworkFaults,
    Override,
    Selector,
)
from jgroups_py.drill.file.values import DrawnValue
from jgroups_py.drill.file.workloads import DEFAULT, WORKLOADS, Workload
from jgroups_py.drill.log import PAYLOAD_MIN
from jgroups_py.errors import ConfigError

FILE_BYTES_MAX = 1_000_000
RATE_MAX = 1_000_000.0
SIZE_MAX = 10_000_000

COMPONENT_FAULTS = ("crash", "vanish", "pause", "leave")
"""The actions that may hit a member by its components, and in the middle of a move."""

DEFAULT_CACHE = "buddy.xml"
DEFAULT_BRIDGE_STACK = "relay-bridge-tcp.xml"
DEFAULT_SETTLE = DrawnValue(10.0, 10.0)
DEFAULT_GRACE = DrawnValue(1.0, 1.0)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_COMPARE = re.compile(r"\s*(<=|>=|<|=)?\s*(.*?)\s*", re.DOTALL)


class _DrillLanguage(MarkupLoader):
    """Reads ``>=`` as plain text."""

    def fetch_folded(self) -> None:
        if self.peek(1) == "=":
            self.fetch_plain()
        else:
            super().fetch_folded()

    def check_plain(self) -> bool:
        if self.peek() == ">" and self.peek(1) == "=":
            return True
        return bool(super().check_plain())


def shipped_drills() -> tuple[str, ...]:
    """Return the names of the drills that come with the package, without ``.yaml``, sorted."""
    names = (entry.name for entry in _shipped().iterdir())
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


def _shipped() -> Traversable:
    return resources.files("jgroups_py.stacks") / "drills"


def find(name: str) -> Path | Traversable:
    """Return the file of this name; else the drill that is shipped as ``name`` or ``name.yaml``.

    Raises ``ConfigError`` that lists the shipped drills and names the nearest.
    """
    path = Path(name)
    if path.exists():
        return path
    known = shipped_drills()
    short = name.removesuffix(".yaml")
    if short in known:
        return _shipped() / f"{short}.yaml"
    hint = nearest(short, known)
    raise ConfigError(
        f'no drill file "{name}", and no shipped drill of that name{hint};'
        f" shipped: {', '.join(known)}"
    )


def load(name: str | Path) -> Drill:
    """Read a drill file, or a shipped drill by its name (``nyc-sfo``). Raises ``ConfigError`` before any
    member is started."""
    path = find(str(name))
    if isinstance(path, Path):
        return _DrillReader(read_bounded(path, FILE_BYTES_MAX)).drill()
    return loads(path.read_text(encoding="utf-8"), str(path))


def loads(text: str, file: str = "<drill>") -> Drill:
    """Read a drill from a text. Errors name ``file``, and stack files are looked for beside it."""
    return _DrillReader(MarkupSource(file, text.encode("utf-8", "surrogatepass"), None)).drill()


class _DrillReader(YamlReader):
    """Walks the YAML nodes. One method a kind of thing; all raise ``ConfigError``."""

    language = _DrillLanguage

    def __init__(self, source: MarkupSource) -> None:
        super().__init__(source)
        self._sites: dict[str, tuple[str, ...]] = {}
        self._workload = DEFAULT

    # the function handles every kind of value

    def _place(self, node: yaml.Node) -> FilePlace:
        return FilePlace(self.source.name, *place_of(node))

    def _unknown(
        self, node: yaml.Node, where: str, what: str, name: str, known: Iterable[str]
    ) -> ConfigError:
        names = list(known)
        return self.wrong(
            node,
            where,
            f"{name!r} is no {what}{nearest(name, names)} (known: {', '.join(names)})",
        )

    def _list(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        """Read a list; a single value is refused."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, where, f"a list is wanted, not {shown(node)}")
        return list(node.value)

    def _span(self, node: yaml.Node, where: str, read: Callable[[str], float]) -> DrawnValue:
        return self.value(node, where, lambda text: values.span(text, read))

    def _name(self, node: yaml.Node, where: str) -> str:
        name = self.text(node, where)
        if not _NAME.fullmatch(name):
            raise self.wrong(node, where, f"{name!r} is no name (letters, digits, _ and -)")
        return name

    # the file

    def drill(self) -> Drill:
        node = self.root()
        keys = [
            "name",
            "seed",
            "workload",
            "primary",
            "relay",
            "sites",
            "bridge",
            "network",
            "set",
            "traffic",
            "timeline",
            "settle",
            "grace",
            "expect",
        ]
        # Settings have the name of their workload, which may stand below them.
        named = [name for name, one in WORKLOADS.items() if one.settings]
        top = self.entries(node, "", [*keys, *named])
        self.need(node, "", top, "sites")
        workload = self._workload = self._read_workload(top)
        for name in named:
            if name in top and name != workload.name:
                problem = f"key {name!r} goes with 'workload: {name}' only, this is {workload.name}"
                raise self.wrong(top[name][0], "", problem)
        settings = self._settings(top[workload.name][1]) if workload.name in top else ()
        sites = self._read_sites(top["sites"][1])
        traffic = self._read_traffic(top["traffic"][1]) if "traffic" in top else ()
        timeline = self._read_timeline(top["timeline"][1]) if "timeline" in top else ()
        return Drill(
            name=self.text(top["name"][1], "name")
            if "name" in top
            else Path(self.source.name).stem,
            file=self.source.name,
            seed=self.value(top["seed"][1], "seed", _seed) if "seed" in top else 1,
            primary=self._primary(top["primary"][1])
            if "primary" in top
            else (None if workload.all_relay else sites[0].name),
            sites=sites,
            bridge=self._read_bridge(top["bridge"][1] if "bridge" in top else None, node),
            network=self._network(top["network"][1]) if "network" in top else NetworkFaults(),
            overrides=self._overrides(top["set"][1], "set") if "set" in top else (),
            traffic=traffic,
            timeline=timeline,
            settle=self._span(top["settle"][1], "settle", values.duration)
            if "settle" in top
            else DEFAULT_SETTLE,
            grace=self._span(top["grace"][1], "grace", values.duration)
            if "grace" in top
            else DEFAULT_GRACE,
            expect=self._read_expect(top["expect"][1]) if "expect" in top else (),
            workload=workload.name,
            primary_only=self._primary_only(top),
            settings=settings,
        )

    def _settings(self, node: yaml.Node) -> tuple[tuple[str, object], ...]:
        """Return the settings of the workload."""
        name, readers = self._workload.name, self._workload.settings
        found = self.entries(node, name, readers)
        return tuple(
            (key, self.value(self._as_text(value, f"{name}.{key}"), f"{name}.{key}", readers[key]))
            for key, (_, value) in found.items()
        )

    def _as_text(self, node: yaml.Node, where: str) -> yaml.Node:
        """Read a list as one text with commas between its elements."""
        if not isinstance(node, yaml.SequenceNode):
            return node
        text = ", ".join(self.text(item, where) for item in self.items(node, where))
        return yaml.ScalarNode(node.tag, text, node.start_mark, node.end_mark)

    def _read_workload(self, top: dict[str, tuple[yaml.Node, yaml.Node]]) -> Workload:
        """Read the workload of the whole drill. It is named at the top, or in each line of traffic."""
        said: list[tuple[yaml.Node, str]] = []
        if "workload" in top:
            said.append((top["workload"][1], "workload"))
        lines = top["traffic"][1].value if "traffic" in top else ()
        for index, line in enumerate(lines if isinstance(lines, list) else ()):
            for key, value in line.value if isinstance(line, yaml.MappingNode) else ():
                if key.value == "workload":
                    said.append((value, f"traffic[{index}].workload"))
        found = DEFAULT.name
        for number, (node, where) in enumerate(said):
            text = self.text(node, where)
            if text not in WORKLOADS:
                raise self._unknown(node, where, "workload", text, WORKLOADS)
            if number and text != found:
                raise self.wrong(node, where, f"{text}, but the drill has {found} already")
            found = text
        return WORKLOADS[found]

    def _primary(self, node: yaml.Node) -> str | None:
        name = self.text(node, "primary")
        if name == "all":
            return None
        if self._workload.all_relay:
            problem = (
                f"{name!r}, but every site relays what its {self._workload.name} writes: 'all'"
            )
            raise self.wrong(node, "primary", problem)
        if name not in self._sites:
            raise self._unknown(node, "primary", "site", name, [*self._sites, "all"])
        return name

    def _primary_only(self, top: dict[str, tuple[yaml.Node, yaml.Node]]) -> bool:
        if "relay" not in top:
            return False
        node = top["relay"][1]
        text = self.text(node, "relay")
        if text != PRIMARY_ONLY:
            raise self.wrong(node, "relay", f"{text!r} is not {PRIMARY_ONLY!r}")
        if "primary" in top and self.text(top["primary"][1], "primary") == "all":
            raise self.wrong(node, "relay", f"{PRIMARY_ONLY!r}, but 'primary: all' lets all relay")
        return True

    def _read_sites(self, node: yaml.Node) -> tuple[DrillSite, ...]:
        sites = []
        named = self.entries(node, "sites", None)
        workload = self._workload
        default = workload.stack_alone if len(named) == 1 else workload.stack
        for key, value in named.values():
            name = self._name(key, "sites")
            if name in ("all", "bridge"):
                raise self.wrong(key, "sites", f"{name!r} is reserved")
            where = f"sites.{name}"
            found = self.entries(value, where, ("members", "stack", "set", *workload.site_keys))
            self.need(key, where, found, "members")
            members: list[str] = []
            for item in self._list(found["members"][1], f"{where}.members"):
                member = self._name(item, f"{where}.members")
                if member in ("all", *ROLES, *workload.components) or (
                    member == FALLEN and workload.components
                ):
                    raise self.wrong(item, f"{where}.members", f"{member!r} is a selector")
                if member in members:
                    raise self.wrong(item, f"{where}.members", f"{member!r} stands twice")
                members.append(member)
            if not members:
                raise self.wrong(found["members"][1], f"{where}.members", "nobody is named")
            self._sites[name] = tuple(members)
            if sum(map(len, self._sites.values())) > MEMBERS_MAX:
                raise self.wrong(value, where, f"more than {MEMBERS_MAX} members")
            if sum(map(len, self._sites.values())) > workload.members_max:
                problem = f"more than {workload.members_max} members: {workload.why}"
                raise self.wrong(value, where, problem)
            if len(self._sites) > workload.sites_max:
                problem = f"more than {workload.sites_max} site: {workload.why}"
                raise self.wrong(key, where, problem)
            sites.append(
                DrillSite(
                    name,
                    tuple(members),
                    self.text(found["stack"][1], f"{where}.stack") if "stack" in found else default,
                    self._overrides(found["set"][1], f"{where}.set") if "set" in found else (),
                    self._place(found["stack"][1] if "stack" in found else key),
                    self._cache(found, where) if "cache" in workload.site_keys else "",
                    self._properties(found["properties"][1], f"{where}.properties")
                    if "properties" in found
                    else (),
                )
            )
        if not sites:
            raise self.wrong(node, "sites", "no site is named")
        return tuple(sites)

    def _cache(self, found: dict[str, tuple[yaml.Node, yaml.Node]], where: str) -> str:
        if "cache" not in found:
            return DEFAULT_CACHE
        return self.text(found["cache"][1], f"{where}.cache")

    def _properties(self, node: yaml.Node, where: str) -> tuple[tuple[str, str], ...]:
        found = self.entries(node, where, None)
        return tuple((n, self.text(value, f"{where}.{n}")) for n, (_, value) in found.items())

    _NETWORK = ("latency", "jitter", "loss", "duplicate", "reorder")

    def _network(self, node: yaml.Node) -> NetworkFaults:
        return self._figures(self.entries(node, "network", self._NETWORK), "network")

    def _figures(self, found: dict[str, tuple[yaml.Node, yaml.Node]], where: str) -> NetworkFaults:
        spans = {
            name: self._span(
                found[name][1],
                f"{where}.{name}",
                values.duration if name in ("latency", "jitter") else values.percentage,
            )
            for name in self._NETWORK
            if name in found
        }
        return NetworkFaults(**spans)

    def _read_bridge(self, node: yaml.Node | None, top: yaml.Node) -> Bridge:
        if node is None:
            return Bridge(DEFAULT_BRIDGE_STACK, NetworkFaults(), (), self._place(top))
        found = self.entries(node, "bridge", ("stack", *self._NETWORK, "set"))
        return Bridge(
            self.text(found["stack"][1], "bridge.stack")
            if "stack" in found
            else DEFAULT_BRIDGE_STACK,
            self._figures(found, "bridge"),
            self._overrides(found["set"][1], "bridge.set") if "set" in found else (),
            self._place(found["stack"][1] if "stack" in found else node),
        )

    def _overrides(self, node: yaml.Node, where: str) -> tuple[Override, ...]:
        overrides = []
        for name, (key, value) in self.entries(node, where, None).items():
            protocol, dot, attribute = name.rpartition(".")
            if not dot or not protocol or not attribute:
                raise self.wrong(key, where, f"{name!r} is not PROTOCOL.attribute")
            text = self.text(value, f"{where}.{name}")
            overrides.append(Override(protocol, attribute, text, self._place(key)))
        return tuple(overrides)

    def _read_traffic(self, node: yaml.Node) -> tuple[DrillTraffic, ...]:
        lines = []
        for index, item in enumerate(self._list(node, "traffic")):
            where = f"traffic[{index}]"
            keys = ("site", "members", "rate", "start", "stop", "workload", *self._workload.traffic)
            found = self.entries(item, where, keys)
            self.need(item, where, found, "site", "rate")
            site = self._site(found["site"][1], f"{where}.site")
            rate = self._span(found["rate"][1], f"{where}.rate", values.rate)
            if not 0 <= rate.low <= rate.high <= RATE_MAX:
                raise self.wrong(found["rate"][1], f"{where}.rate", f"at most {RATE_MAX:.0f}/s")
            lines.append(
                DrillTraffic(
                    site,
                    self._members(found["members"][1], site, f"{where}.members")
                    if "members" in found
                    else self._sites[site],
                    rate,
                    self._size(found["size"][1], f"{where}.size") if "size" in found else 1000,
                    self._span(found["start"][1], f"{where}.start", values.duration)
                    if "start" in found
                    else DrawnValue(0.0, 0.0),
                    self._span(found["stop"][1], f"{where}.stop", values.duration)
                    if "stop" in found
                    else None,
                    self._place(item),
                    *self._asks(found, where),
                )
            )
        return tuple(lines)

    def _asks(
        self, found: dict[str, tuple[yaml.Node, yaml.Node]], where: str
    ) -> tuple[object, tuple[tuple[str, DrawnValue], ...]]:
        workload = self._workload
        if workload.asks is None:
            return None, ()
        given = {
            key: self.value(found[key][1], f"{where}.{key}", read)
            for key, read in workload.traffic.items()
            if key in found
        }
        drawn = tuple((name, given.pop(name)) for name in workload.parts if name in given)
        return workload.asks(**given), drawn

    def _size(self, node: yaml.Node, where: str) -> int:
        size = self.value(node, where, values.size)
        if not PAYLOAD_MIN <= size <= SIZE_MAX:
            raise self.wrong(
                node, where, f"{size} B; from {PAYLOAD_MIN} B (number and time) to {SIZE_MAX} B"
            )
        return size

    def _site(self, node: yaml.Node, where: str) -> str:
        name = self.text(node, where)
        if name not in self._sites:
            raise self._unknown(node, where, "site", name, self._sites)
        return name

    def _members(self, node: yaml.Node, site: str, where: str) -> tuple[str, ...]:
        if isinstance(node, yaml.ScalarNode) and node.value == "all":
            return self._sites[site]
        names: list[str] = []
        for item in self.items(node, where):
            name = self.text(item, where).removeprefix(f"{site}.")
            if name not in self._sites[site]:
                raise self._unknown(item, where, f"member of {site}", name, self._sites[site])
            if name in names:
                raise self.wrong(item, where, f"{name!r} stands twice")
            names.append(name)
        return tuple(names)

    def _read_timeline(self, node: yaml.Node) -> tuple[DrillEvent, ...]:
        return tuple(
            self._event(item, f"timeline[{index}]")
            for index, item in enumerate(self._list(node, "timeline"))
        )

    def _event(self, node: yaml.Node, where: str) -> DrillEvent:
        known = self._workload.faults
        during = ("during",) if self._workload.during else ()
        found = self.entries(node, where, ("at", *known, "for", "gap", "order", "how", *during))
        faults = [name for name in found if name in known]
        if len(faults) != 1:
            raise self.wrong(
                node, where, f"exactly one of {', '.join(known)} expected, found {len(faults)}"
            )
        (fault,) = faults
        self.need(node, where, found, "at")
        allowed = {
            "for": ("pause", "partition"),
            "gap": ("crash", "vanish", "pause", "leave", "restart", "fail_site"),
            "order": ("crash", "vanish", "pause", "leave", "restart", "fail_site"),
            "how": ("fail_site",),
            "during": COMPONENT_FAULTS,
        }
        for key, with_faults in allowed.items():
            if key in found and fault not in with_faults:
                raise self.wrong(
                    found[key][0], where, f"key {key!r} goes with {', '.join(with_faults)} only"
                )
        target, inside = found[fault][1], f"{where}.{fault}"
        groups: tuple[tuple[Selector, ...], ...] = ()
        targets: tuple[Selector, ...] = ()
        if fault == "partition":
            groups = self._groups(target, inside)
        elif fault in ("fail_site", "promote", "bootstrap"):
            targets = tuple(
                Selector(self._site(item, inside), None, self._place(item))
                for item in self.items(target, inside)
            )
            if fault != "fail_site" and len(targets) != 1:
                raise self.wrong(target, inside, "one site expected")
            if fault == "bootstrap" and len(self._sites) == 1:
                raise self.wrong(target, inside, f"no other site could send to {targets[0]}")
            if fault == "promote" and self._workload.name == "cache" and len(self._sites) == 1:
                raise self.wrong(target, inside, f"there is no other site than {targets[0]}")
        else:
            targets = tuple(
                self._member(item, inside, fault) for item in self.items(target, inside)
            )
        self._check_components(targets, target, inside, fault, "during" in found)
        if fault != "partition" and not targets:
            raise self.wrong(target, inside, "nobody is named")
        duplicates = [t for i, t in enumerate(targets) if str(t) in map(str, targets[:i])]
        if any(t.what != "any" for t in duplicates):
            raise self.wrong(target, inside, f"{duplicates[0]} stands twice")
        return DrillEvent(
            at=self._span(found["at"][1], f"{where}.at", values.duration),
            fault=fault,
            targets=targets,
            groups=groups,
            gap=self._span(found["gap"][1], f"{where}.gap", values.duration)
            if "gap" in found
            else DrawnValue(0.0, 0.0),
            shuffled="order" in found and self._choice(found["order"][1], where, "order"),
            duration=self._span(found["for"][1], f"{where}.for", values.duration)
            if "for" in found
            else None,
            how=self._how(found["how"][1], where) if "how" in found else "vanish",
            place=self._place(node),
            during=self._during(found["during"][1], where) if "during" in found else "",
        )

    def _check_components(
        self,
        targets: tuple[Selector, ...],
        node: yaml.Node,
        where: str,
        fault: str,
        during: bool,
    ) -> None:
        if fault == "upgrade" and len(targets) != 2:
            problem = "two members expected: who has the buckets, and who gets them"
            raise self.wrong(node, where, problem)
        if not during and (named := [t for t in targets if t.what == "target"]):
            problem = f"{named[0]} is the member to which a bucket moves: say 'during' as well"
            raise self.wrong(node, where, problem)

    def _choice(self, node: yaml.Node, where: str, key: str) -> bool:
        text = self.text(node, f"{where}.{key}")
        if text not in ("given", "shuffled"):
            raise self._unknown(node, f"{where}.{key}", "order", text, ("given", "shuffled"))
        return text == "shuffled"

    def _how(self, node: yaml.Node, where: str) -> str:
        text = self.text(node, f"{where}.how")
        if text not in ("vanish", "crash"):
            raise self._unknown(node, f"{where}.how", "way", text, ("vanish", "crash"))
        return text

    def _during(self, node: yaml.Node, where: str) -> str:
        text = self.text(node, f"{where}.during")
        if text not in self._workload.during:
            raise self._unknown(node, f"{where}.during", "work", text, self._workload.during)
        return text

    def _member(self, node: yaml.Node, where: str, fault: str) -> Selector:
        text = self.text(node, where)
        site, dot, what = text.partition(".")
        if site not in self._sites:
            raise self._unknown(node, where, "site", site, self._sites)
        if not dot:
            raise self.wrong(node, where, f"{text!r} is a site; SITE.NAME or SITE.role expected")
        by_name = fault in ("restart", "upgrade")
        components = self._components(fault)
        known = [*self._sites[site], *(() if by_name else ROLES), *components]
        if what not in known:
            kind = f"member of {site}" if by_name else f"member or role of {site}"
            raise self._unknown(node, where, kind, what, known)
        return Selector(site, what, self._place(node), what in components)

    def _components(self, fault: str) -> tuple[str, ...]:
        """Return the keys of the workload for this action."""
        if fault in COMPONENT_FAULTS:
            return self._workload.components
        return (FALLEN,) if fault == "restart" and self._workload.components else ()

    def _groups(self, node: yaml.Node, where: str) -> tuple[tuple[Selector, ...], ...]:
        groups = []
        seen: list[str] = []
        for item in self._list(node, where):
            group = []
            for element in self.items(item, where):
                text = self.text(element, where)
                if "." in text:
                    selector = self._member(element, where, "partition")
                else:
                    selector = Selector(self._site(element, where), None, self._place(element))
                if str(selector) in seen:
                    raise self.wrong(element, where, f"{selector} stands in two places")
                seen.append(str(selector))
                group.append(selector)
            if not group:
                raise self.wrong(item, where, "an empty group")
            groups.append(tuple(group))
        if len(groups) < 2:
            raise self.wrong(node, where, "at least two groups expected: [[NYC], [SFO]]")
        for site in self._sites:
            if site in seen and any(name.startswith(f"{site}.") for name in seen):
                raise self.wrong(node, where, f"{site} and a member of it are both named")
        return tuple(groups)

    def _read_expect(self, node: yaml.Node) -> tuple[Expectation, ...]:
        expectations = []
        counts, times = self._workload.counts, self._workload.times
        for name, (_, value) in self.entries(node, "expect", (*counts, *times)).items():
            where = f"expect.{name}"
            match = _COMPARE.fullmatch(self.text(value, where))
            assert match is not None  # the pattern takes any text
            compare, text = match[1] or "=", match[2]
            try:
                limit = values.duration(text) if name in times else _count(text)
            except ValueError as error:
                comparisons = "" if match[1] or text[:1].isalnum() else ", after <=, <, >= or ="
                raise self.wrong(value, where, f"{error}{comparisons}") from None
            shown = f"{compare} {text}"
            expectations.append(Expectation(name, compare, limit, shown, self._place(value)))
        return tuple(expectations)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"{text!r} is not a seed (a whole number from 0)")
    return int(text)


def _count(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"{text!r} is not a number of messages")
    return int(text)
