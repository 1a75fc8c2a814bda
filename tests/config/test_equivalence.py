"""XML and YAML are equivalent: any stack written in one of them reads back as the same stack."""

from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.config.file import parse_stack
from jgroups_py.config.model import Attribute, Element, ProtocolConfig, StackConfig
from jgroups_py.config.settings import load_stack
from jgroups_py.config.write import to_xml, to_yaml

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,6}", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z_]{0,5}(\.[a-z]{1,4})?", fullmatch=True).filter(
    lambda key: not key.startswith("xml")
)
TEXTS = st.one_of(
    st.sampled_from(
        ["true", "on", "no", "null", "~", "1", "1.5s", "0x1", "1_0", "{", "- a", "a: b"]
    ),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="$\ufffe\uffff"),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["a\nb", "\t", "\r\n", '"', "'&<>"]),
)
ATTRIBUTES = st.dictionaries(KEYS, TEXTS, max_size=4).map(
    lambda given: tuple(Attribute(key, text) for key, text in given.items())
)
ELEMENTS = st.recursive(
    st.builds(Element, NAMES, ATTRIBUTES),
    lambda inner: st.builds(Element, NAMES, ATTRIBUTES, st.lists(inner, max_size=2).map(tuple)),
    max_leaves=4,
)
PROTOCOLS = st.builds(ProtocolConfig, NAMES, ATTRIBUTES, st.lists(ELEMENTS, max_size=2).map(tuple))
STACKS = st.lists(PROTOCOLS, min_size=1, max_size=4).map(lambda ps: StackConfig(tuple(ps), "made"))


def plain(items: tuple[ProtocolConfig, ...] | tuple[Element, ...]) -> list[object]:
    """Return the elements without places, which differ between the languages."""
    return [(i.name, [(a.key, a.text) for a in i.attributes], plain(i.elements)) for i in items]


@given(STACKS)
def test_a_stack_survives_both_languages(stack: StackConfig) -> None:
    from_xml = parse_stack(to_xml(stack), language="xml", environment={})
    from_yaml = parse_stack(to_yaml(stack), language="yaml", environment={})
    assert plain(from_xml.protocols) == plain(from_yaml.protocols)
    assert [p.name for p in from_xml] == [p.name for p in from_yaml]
    again = parse_stack(to_yaml(from_xml), language="yaml", environment={})
    assert plain(again.protocols) == plain(from_xml.protocols)


def test_the_shipped_udp_stack_is_the_same_in_both_languages() -> None:
    one, other = load_stack("udp.xml", environment={}), load_stack("udp.yaml", environment={})
    assert plain(one.protocols) == plain(other.protocols)
