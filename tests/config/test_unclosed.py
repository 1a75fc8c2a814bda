"""An error about an unclosed XML element gives the element's own line, not the line at which the parser stopped."""

from __future__ import annotations

import pytest

from jgroups_py.config.settings import load_stack
from jgroups_py.errors import ConfigError


@pytest.mark.parametrize("end", ["</config>\n", ""])
def test_an_element_that_is_not_closed_is_named_with_the_line_it_begins_in(
    end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("stack") / "open.xml"
    file.write_text(f"<config>\n  <UDP>\n  <PING/>\n  <MERGE3/>\n{end}")
    with pytest.raises(ConfigError) as raised:
        load_stack(str(file))
    assert raised.value.line == 2
    assert "<UDP> is not closed" in str(raised.value)
