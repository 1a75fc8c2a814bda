"""Typed settings from a stack file, and the errors when they do not fit."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from jgroups_py.config.file import parse_stack
from jgroups_py.config.model import Element
from jgroups_py.config.settings import (
    Bytes,
    Fraction,
    HostPorts,
    Ignored,
    Seconds,
    accepted,
    build,
    field_types,
    value_text,
)
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Protocol


class Mode(enum.Enum):
    BLOCK = 1
    SPILL = 2


class SAMPLE(Protocol):
    protocol_id = 2000

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        timeout: Seconds = 1.0
        bundler_max_size: Bytes = 5
        share: Fraction = 0.5
        count: int = 1
        factor: float = 1.0
        on: bool = False
        text: str = ""
        hosts: HostPorts = ()
        names: tuple[str, ...] = ()
        when: Literal["received", "stable"] = "received"
        mode: Mode | None = None
        limit: Bytes | None = None
        ignored: ClassVar[frozenset[str]] = frozenset({"thread_pool.*", "old"})
        refused: ClassVar[dict[str, str]] = {"lock.factory": 'write timeout="1s"'}
        aliases: ClassVar[dict[str, str]] = {"time_out": "timeout"}

        def __post_init__(self) -> None:
            if self.timeout <= 0:
                raise ConfigError(f"timeout must be > 0, got {self.timeout}")
            if self.count > 9:
                raise ValueError("at most 9")


class NEEDY(Protocol):
    protocol_id = 2001

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        site: str
        elements: tuple[Element, ...] = ()


class NEEDIER(Protocol):
    protocol_id = 2002

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        site: str
        relay: str


class Registry:
    def find(self, name: str) -> type[Any]:
        known = {"SAMPLE": SAMPLE, "NEEDY": NEEDY, "NEEDIER": NEEDIER}
        if name not in known:
            raise ConfigError("unknown protocol")
        return known[name]


def settings(attributes: str, ignored: list[Ignored] | None = None, compat: str = "") -> Any:
    text = f"<config>\n  <SAMPLE {attributes}/>\n</config>"
    stack = parse_stack(text, language="xml", source="s.xml", compat=compat or None)
    [(cls, config)] = build(stack, Registry(), ignored)
    assert cls is SAMPLE
    return config


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ('timeout="500"', "timeout", 0.5),
        ('time_out="2s"', "timeout", 2.0),
        ('bundler.max_size="64K"', "bundler_max_size", 64_000),
        ('bundler_max_size="1kib"', "bundler_max_size", 1024),
        ('share="40%"', "share", 0.4),
        ('count="-3"', "count", -3),
        ('factor="1.5"', "factor", 1.5),
        ('on="TRUE"', "on", True),
        ('text="on"', "text", "on"),
        ('hosts="a[1],b[2]"', "hosts", (("a", 1), ("b", 2))),
        ('names="x, y"', "names", ("x", "y")),
        ('when="Stable"', "when", "stable"),
        ('mode="spill"', "mode", Mode.SPILL),
        ('limit="1k"', "limit", 1000),
        ('limit=""', "limit", None),
    ],
)
def test_texts_become_typed_values(written: str, field: str, value: object) -> None:
    assert getattr(settings(written), field) == value


def test_defaults_hold_for_missing_attributes() -> None:
    assert settings("") == SAMPLE.Config()


def test_compat_reads_kib_as_jgroups_5_does() -> None:
    assert settings('limit="10kib"', compat="jgroups-5").limit == 10_000


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('timeout="1x"', 's.xml:2:11: SAMPLE.timeout: not a time: "1x" (a time such as'),
        ('on="1"', 'SAMPLE.on: not a boolean: "1" (true or false)'),
        ('count="1.5"', 'SAMPLE.count: not a whole number: "1.5"'),
        ('count="1_0"', 'not a whole number: "1_0"'),
        (
            'count="9223372036854775808"',
            "9223372036854775808 is beyond -9223372036854775807 to 9223372036854775807",
        ),
        ('when="later"', 'not known: "later" (one of received, stable)'),
        ('mode="no"', "one of BLOCK, SPILL"),
        (
            'text="a" timout="3s"',
            's.xml:2:20: SAMPLE.timout: unknown attribute, value "3s" (did you',
        ),
        ('zzz="3s"', "(SAMPLE knows timeout, bundler_max_size"),
        ('text="a" timeout="0"', "s.xml:2:20: SAMPLE.timeout: timeout must be > 0, got 0.0"),
        ('count="10"', "s.xml:2:3: SAMPLE: at most 9"),
    ],
)
def test_a_mistake_names_file_line_column_key_value_and_accepted_ones(
    written: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(written)
    assert message in str(caught.value)


def test_attributes_without_effect_are_collected_not_fatal() -> None:
    ignored: list[Ignored] = []
    settings('thread_pool.max_threads="9" old="x" stats="false" timeout="1s"', ignored)
    assert [str(item) for item in ignored] == [
        "SAMPLE.thread_pool.max_threads=9",
        "SAMPLE.old=x",
        "SAMPLE.stats=false",
    ]


def build_text(body: str) -> list[tuple[type[Any], Any]]:
    return build(parse_stack(f"<config>{body}</config>", language="xml", source="s"), Registry())


def test_an_unknown_protocol_is_reported_where_it_stands() -> None:
    with pytest.raises(ConfigError, match=r"s:1:9: my\.OTHER: unknown protocol"):
        build_text("<my.OTHER/>")


def test_a_protocol_cannot_be_in_a_stack_twice() -> None:
    with pytest.raises(ConfigError, match=r"s:1:18: SAMPLE: is in the stack twice"):
        build_text("<SAMPLE/><SAMPLE/>")


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(ConfigError, match="s:1:9: NEEDY: needs site"):
        build_text("<NEEDY/>")
    with pytest.raises(ConfigError, match=r"needs site \(\$\{no\.such\} is not set\)"):
        build_text('<NEEDY site="${no.such}"/>')
    with pytest.raises(ConfigError, match=r"s:1:9: NEEDIER: needs relay$"):
        build_text('<NEEDIER site="x"/>')


def test_nested_elements_go_to_protocols_that_read_them() -> None:
    [(_, config)] = build_text('<NEEDY site="x"><sites><site name="a"/></sites></NEEDY>')
    assert config.elements[0].elements[0].attributes[0].text == "a"
    with pytest.raises(ConfigError, match="takes no nested elements, got <sites>"):
        build_text("<SAMPLE><sites/></SAMPLE>")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("count", "a whole number"),
        ("factor", "a number"),
        ("on", "true or false"),
        ("text", "a text"),
        ("names", "a list separated by commas"),
        ("when", "one of received, stable"),
        ("mode", "one of BLOCK, SPILL"),
    ],
)
def test_an_attribute_names_accepted_values(name: str, words: str) -> None:
    assert accepted(field_types(SAMPLE.Config)[name]) == words


def test_values_are_written_as_they_are_read() -> None:
    config = settings('timeout="250" limit="64kib" hosts="a[1]" names="x,y" mode="block" on="true"')
    kinds = field_types(type(config))
    texts = {name: value_text(getattr(config, name), kind) for name, kind in kinds.items()}
    written = " ".join(f'{name}="{text}"' for name, text in texts.items())
    assert texts["timeout"] == "250ms" and texts["limit"] == "64kib"
    assert settings(written) == config


def test_a_misleading_attribute_is_refused_with_its_replacement() -> None:
    with pytest.raises(ConfigError) as raised:
        settings('lock.factory="x"')
    assert (
        's.xml:2:11: SAMPLE.lock.factory: lock.factory has no effect here: write timeout="1s"'
        in str(raised.value)
    )


@pytest.mark.parametrize("transport", ["UDP", "TCP", "TCP_NIO2"])
def test_a_socket_factory_is_refused_because_traffic_would_be_in_clear(transport: str) -> None:
    text = f'<config><{transport} socket_factory="org.example.Factory"/></config>'
    with pytest.raises(ConfigError, match=r"socket_factory.*tls.enabled.*SEAL"):
        build(parse_stack(text, language="xml", source="s.xml"))
