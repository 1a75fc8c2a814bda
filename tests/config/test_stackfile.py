"""Reading XML and YAML: places, variables, includes, and refusals."""

from pathlib import Path
from typing import Any

import pytest

from jgroups_py.config.file import MAX_FILE_BYTES, parse_stack, substitute
from jgroups_py.config.model import StackConfig
from jgroups_py.config.settings import build, load_stack, with_attributes
from jgroups_py.errors import ConfigError


def xml(body: str, **properties: str) -> StackConfig:
    return parse_stack(
        f"<config>{body}</config>",
        language="xml",
        source="s.xml",
        properties=properties,
        environment={},
    )


def failure(text: str | bytes, language: str = "xml") -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_stack(text, language=language, source="s", environment={})
    assert "\n" not in str(caught.value)
    return caught.value


def texts(stack: StackConfig) -> list[tuple[str, dict[str, str]]]:
    return [(p.name, {a.key: a.text for a in p.attributes}) for p in stack]


def test_an_attribute_knows_its_own_line_and_column() -> None:
    stack = xml('\n  <pbcast.GMS join_timeout="1s"\n     höhe="2"  merge_timeout = \'5s\' />')
    gms = stack.protocols[0]
    assert (gms.name, gms.written, gms.line, gms.column) == ("GMS", "pbcast.GMS", 2, 3)
    assert [(a.key, a.line, a.column) for a in gms.attributes] == [
        ("join_timeout", 2, 15),
        ("höhe", 3, 6),
        ("merge_timeout", 3, 16),
    ]


def test_yaml_knows_lines_and_columns_too() -> None:
    stack = parse_stack(
        "protocols:\n  - PING\n  - FD_ALL3:\n      timeout: 5s\n      interval: 1s\n",
        language="yaml",
    )
    fd = stack.find("FD_ALL3")
    assert fd is not None
    assert (fd.line, fd.column) == (3, 5)
    assert [(a.key, a.line, a.column) for a in fd.attributes] == [
        ("timeout", 4, 7),
        ("interval", 5, 7),
    ]


def test_yaml_scalars_stay_text() -> None:
    stack = parse_stack(
        "- UDP: {a: on, b: no, c: 1_000, d: 0x10, e: true, f: 1.50}", language="yaml"
    )
    assert texts(stack) == [
        ("UDP", {"a": "on", "b": "no", "c": "1_000", "d": "0x10", "e": "true", "f": "1.50"})
    ]


def test_older_names_and_packages_are_understood() -> None:
    stack = xml("<TCP_NIO2/><FD_SOCK/><FD_ALL2/><VERIFY_SUSPECT/><pbcast.NAKACK2/><my.mod.THING/>")
    names = ["TCP", "FD_SOCK2", "FD_ALL3", "VERIFY_SUSPECT2", "NAKACK2", "my.mod.THING"]
    assert [p.name for p in stack] == names
    assert "FD_ALL" in stack and "THING" in stack and "GMS" not in stack


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${a}", "given"),
        ("${b:7}", "7"),
        ("${b,a:7}", "given"),
        ("${x.y}", "shouted"),
        ("${env}", "here"),
        ("x${a}y${b:z}", "xgivenyz"),
        ("${b:match-address:192.*,loopback}", "match-address:192.*,loopback"),
        ("${b}", ""),
        ("plain", "plain"),
    ],
)
def test_variables_are_filled_in(text: str, expected: str) -> None:
    properties = {"a": "given"}
    assert substitute(text, properties, {"X_Y": "shouted", "env": "here", "a": "no"}) == expected


def test_an_empty_attribute_counts_as_not_given() -> None:
    assert texts(xml('<UDP bind_addr="${nothing}" mcast_port="${p:1}"/>')) == [
        ("UDP", {"mcast_port": "1"})
    ]


def test_a_yaml_key_without_the_space_after_its_colon_is_an_error_with_its_place() -> None:
    error = failure("- UDP\n- FD_ALL3: {timeout:40s, interval: 8s}", "yaml")
    assert (error.line, error.column) == (2, 13)
    assert error.problem == 'FD_ALL3: a space stands after the colon: "timeout: 40s"'


def test_an_unknown_attribute_without_a_value_is_refused() -> None:
    stack = xml('<UDP bind_addr=""/><FD_ALL3 timeot="${nothing:}"/>')
    with pytest.raises(ConfigError, match=r"unknown attribute.*did you mean \"timeout\"") as caught:
        build(stack)
    assert caught.value.where == "FD_ALL3.timeot"


def test_an_ignored_attribute_without_a_value_is_accepted() -> None:
    assert build(xml('<UDP thread_pool.min_threads=""/><FD_ALL3 timeout=""/>'))


@pytest.mark.parametrize("bad", ["\x1b", "\0", "\ufffe"])
def test_a_character_that_yaml_forbids_is_an_error_with_its_place(bad: str) -> None:
    error = failure(f"- UDP\n- PI{bad}NG", "yaml")
    assert (error.line, error.column) == (2, 5)
    assert error.problem == f"not YAML: the character {bad!a} is not allowed"


def test_an_unclosed_variable_is_an_error_with_its_place() -> None:
    error = failure('<config>\n<UDP a="1" bind_addr="${x"/></config>')
    assert (error.line, error.column, error.where) == (2, 12, "UDP.bind_addr")


def test_includes_are_found_beside_the_file_and_take_overrides(tmp_path: Path) -> None:
    (tmp_path / "main.xml").write_text(
        '<config><include file="${t:part.yaml}" mcast_port="2"/><PING/></config>'
    )
    (tmp_path / "part.yaml").write_text("- UDP: {mcast_port: 1, ip_ttl: 3}")
    stack = load_stack(tmp_path / "main.xml", environment={})
    assert texts(stack) == [("UDP", {"ip_ttl": "3", "mcast_port": "2"}), ("PING", {})]
    udp = stack.protocols[0]
    assert udp.file == str(tmp_path / "part.yaml")
    assert udp.attributes[-1].file == str(tmp_path / "main.xml")


def test_an_included_file_may_be_a_single_protocol(tmp_path: Path) -> None:
    (tmp_path / "main.xml").write_text('<config><include file="udp-x.xml"/></config>')
    (tmp_path / "udp-x.xml").write_text('<UDP ip_ttl="3"/>')
    assert texts(load_stack(tmp_path / "main.xml")) == [("UDP", {"ip_ttl": "3"})]


def test_a_shipped_stack_can_be_included_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "main.xml").write_text(
        '<config>\n<include file="udp-default.xml" mcast_port="9"/></config>'
    )
    stack = load_stack(tmp_path / "main.xml", environment={})
    assert stack.protocols[0].get("mcast_port") == "9"


def test_overriding_several_included_protocols_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text("- PING\n- include: {file: two.yaml, timeout: 1}")
    (tmp_path / "two.yaml").write_text("[UDP, PING]")
    with pytest.raises(ConfigError, match=r"main\.yaml:2:\d+: include\.timeout: .* 2 protocols"):
        load_stack(tmp_path / "main.yaml")


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<config><include file="b.xml"/></config>')
    (tmp_path / "b.xml").write_text('<config><include file="a.xml"/></config>')
    with pytest.raises(ConfigError, match=r"include each other: .*a\.xml -> .*b\.xml -> .*a\.xml"):
        load_stack(tmp_path / "a.xml")


def test_includes_that_double_at_each_level_are_stopped(tmp_path: Path) -> None:
    for level in range(30):
        twice = f'<include file="{level + 1}.xml"/>' * 2
        (tmp_path / f"{level}.xml").write_text(f"<config>{twice}</config>")
    (tmp_path / "30.xml").write_text("<config><PING/></config>")
    with pytest.raises(ConfigError, match="more than 100 includes"):
        load_stack(tmp_path / "0.xml")


def test_a_missing_file_names_the_nearest_shipped_one() -> None:
    with pytest.raises(ConfigError, match=r'no stack file "upd.xml".*did you mean "udp.xml"'):
        load_stack("upd.xml")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "huge.xml").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        load_stack(tmp_path / "huge.xml")


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("<!DOCTYPE config [<!ENTITY a 'b'>]><config/>", "DOCTYPE", 1),
        ("<config>\n<UDP <!-- x --> a='1'/></config>", "comments cannot stand inside a tag", 2),
        ("<config>\n<UDP a='1' a='2'/></config>", "duplicate attribute", 2),
        ("<config>\n<UDP></config>", "mismatched tag", 2),
        ("<config>\n stray</config>", "text", 2),
        ("<sites/>", "root is <sites>", 1),
        ("", "no element found", 1),
        ("<config><include/></config>", "needs file=", 1),
        ("<config>" + "<a>" * 40 + "</a>" * 40 + "</config>", "nested deeper", 1),
        (b"<config>\xff</config>", "not a readable text", None),
    ],
)
def test_wrong_xml_is_refused(text: str | bytes, problem: str, line: int | None) -> None:
    error = failure(text)
    assert problem in str(error)
    assert error.line == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("UDP", "must be a list"),
        ("{stack: [UDP]}", "protocols: and that list"),
        ("- UDP: {a: 1, a: 2}", '"a" is given twice'),
        ("- UDP: {a: [1]}", "expected one value"),
        ("- UDP: 7", "expected attributes"),
        ("- {UDP: {}, PING: {}}", "expected NAME"),
        ("- &x UDP\n- *x", "anchors and aliases"),
        ("- UDP: {a: 'b}", "not YAML"),
        ("- [UDP]", "expected NAME"),
        ("- {[a]: b}", "a key must be a name"),
        ("a: b: c", "not YAML"),
        ("[" * 5000, "not YAML"),
    ],
)
def test_wrong_yaml_is_refused(text: str, problem: str) -> None:
    assert problem in str(failure(text, "yaml"))


def test_other_encodings_are_read() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<config><UDP name="ä"/></config>'
    latin = parse_stack(text.encode("latin-1"), language="xml")
    utf16 = parse_stack('<config><UDP name="ä"/></config>'.encode("utf-16"), language="xml")
    assert texts(latin) == texts(utf16) == [("UDP", {"name": "ä"})]


def test_overrides_replace_add_and_remove() -> None:
    stack = xml('<UDP mcast_port="1" bundler.max_size="5"/><pbcast.GMS/>')
    changed = with_attributes(
        stack,
        {
            "UDP.mcast_port": 2,
            "UDP.bundler_max_size": "",
            "pbcast.GMS.join_timeout": "1s",
            "GMS.print_local_addr": False,
        },
    )
    assert texts(changed) == [
        ("UDP", {"mcast_port": "2"}),
        ("GMS", {"join_timeout": "1s", "print_local_addr": "false"}),
    ]
    assert texts(stack)[0][1]["mcast_port"] == "1"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("UPD.mcast_port", 'did you mean "UDP"?'),
        ("mcast_port", "is not PROTOCOL.attribute"),
        ("RELAY.buffering_members", 'no protocol "RELAY" in this stack'),
        ("UDP.", 'no protocol "UDP."'),
    ],
)
def test_an_override_that_fits_nothing_is_an_error(key: str, problem: str) -> None:
    if key == "UDP.":
        problem = "no protocol"
    with pytest.raises(ConfigError) as caught:
        with_attributes(xml("<UDP/>"), {key: "1"})
    assert problem in str(caught.value)


def test_a_source_that_is_no_file_is_refused_with_accepted_ones() -> None:
    stack: Any = ["udp.xml"]
    with pytest.raises(ConfigError, match=r"a stack is the path of a file .* not a list"):
        load_stack(stack)
