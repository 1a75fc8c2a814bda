"""Linux: leaves out our own multicasts before they cost a receive buffer and a system call.

A socket filter (classic BPF) on the group's socket drops datagrams whose source is our own sending
socket. It only saves time: without it the datagrams come, and the transport drops them.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
import sys

from jgroups_py.stack.ports import Endpoint

log = logging.getLogger("jgroups_py.driver")

_SO_ATTACH_FILTER = 26
_LOAD_HALF, _LOAD_WORD = 0x28, 0x20  # they load a value at an absolute offset
_JUMP_EQUAL, _RETURN = 0x15, 0x06
_UDP_SOURCE_PORT = 0  # a UDP socket's filter sees the datagram from its UDP header on
_IP_SOURCE = 0xFFF00000 + 12  # SKF_NET_OFF: from the IP header on


def leave_out(sock: socket.socket, source: Endpoint) -> bool:
    """Keep datagrams from ``source`` (IPv4) from ``sock``. False: that cannot be done."""
    host, port = source
    if not sys.platform.startswith("linux") or ":" in host or host == "0.0.0.0" or port == 0:
        return False
    address = int.from_bytes(socket.inet_aton(host), "big")
    program = [
        (_LOAD_HALF, 0, 0, _UDP_SOURCE_PORT),
        (_JUMP_EQUAL, 0, 3, port),
        (_LOAD_WORD, 0, 0, _IP_SOURCE),
        (_JUMP_EQUAL, 0, 1, address),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, 0xFFFFFFFF),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    filter_ = struct.pack("HL", len(program), ctypes.addressof(code))
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
    except OSError as error:
        log.debug("own multicasts are not filtered: %s", error)
        return False
    return True
