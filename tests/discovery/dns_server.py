"""A DNS server in a process of its own: it gives the answers in its JSON argument, and prints its port.

    {"jgroups.svc.": {"A": ["127.0.0.1"], "SRV": ["0 0 7800 a.svc."]}, "bad.svc.": "garbage"}

A name may be ``garbage`` (bytes that are no answer), ``silent``, or ``servfail``. The server ends after
LIFETIME seconds.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

LIFETIME = 600


def reply(zone: dict[str, Any], data: bytes) -> bytes | None:
    query = dns.message.from_wire(data)
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    question = query.question[0]
    known = zone.get(str(question.name).lower())
    match known:
        case "garbage":
            return data[:2] + b"\x85\x00" + b"\xff" * 40
        case "silent":
            return None
        case "servfail":
            response.set_rcode(dns.rcode.SERVFAIL)
        case None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        case _:
            kind = dns.rdatatype.to_text(question.rdtype)
            if texts := known.get(kind):
                response.answer.append(
                    dns.rrset.from_text_list(question.name, 60, "IN", kind, texts)
                )
            for name, host in known.get("additional", ()):
                response.additional.append(dns.rrset.from_text(name, 60, "IN", "A", host))
    return bytes(response.to_wire())


def main() -> None:
    signal.alarm(LIFETIME)
    zone = json.loads(sys.argv[1])
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    while True:
        data, source = sock.recvfrom(4096)
        answer = reply(zone, data)
        if answer is not None:
            sock.sendto(answer, source)


if __name__ == "__main__":
    main()
