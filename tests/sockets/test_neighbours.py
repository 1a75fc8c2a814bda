from __future__ import annotations

from pathlib import Path

from jgroups_py.driver.neighbours import hints

UDP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  100: 080808EF:B214 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1
  101: 080808EF:B214 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 2
  102: 080808EF:B61E 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 3
  103: 0100007F:1388 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4
  104: FB0000E0:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5
  105: what
"""
IGMP = """\
Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter
1\tlo        :     2      V3
\t\t\t\t080808EF     1 0:00000000\t\t0
\t\t\t\t010000E0     1 0:00000000\t\t0
4\teth0      :     2      V3
\t\t\t\t080808EF     1 0:00000000\t\t0
\t\t\t\t010000E0     1 0:00000000\t\t0
"""
OURS = ("239.8.8.8", 45588)


def test_other_ports_other_sockets_and_other_devices_are_named(tmp_path: Path) -> None:
    (tmp_path / "udp").write_text(UDP)
    (tmp_path / "igmp").write_text(IGMP)
    assert hints([OURS], tmp_path) == [
        "a process on this machine listens to 239.8.8.8:46622: is the group there?",
        "1 more socket on this machine listens to 239.8.8.8:45588: do cluster name, bind_addr and "
        "version agree?",
        "239.8.8.8 is joined on lo, eth0: is bind_addr the same everywhere?",
    ]


def test_places_with_our_group_or_our_port_are_named_before_others(tmp_path: Path) -> None:
    head, row = UDP.splitlines()[:2]
    places = [f"0{n}0202E8:1D83" for n in range(1, 7)] + ["080808EF:B61E", "090909EF:B214"]
    rows = [row.replace("080808EF:B214", place) for place in places]
    (tmp_path / "udp").write_text("\n".join([head, *rows]))
    (told,) = hints([OURS], tmp_path)
    assert "listens to 239.8.8.8:46622, 239.9.9.9:45588, 232.2.2.1:7555, " in told


def test_no_neighbour_is_known_without_proc_or_groups(tmp_path: Path) -> None:
    assert hints([OURS], tmp_path) == []
    (tmp_path / "udp").write_text(UDP)
    assert hints([], tmp_path) == []


def test_alone_on_the_machine_there_is_no_hint(tmp_path: Path) -> None:
    (tmp_path / "udp").write_text("\n".join(UDP.splitlines()[:2]))
    (tmp_path / "igmp").write_text("\n".join(IGMP.splitlines()[:4]))
    assert hints([OURS], tmp_path) == []
