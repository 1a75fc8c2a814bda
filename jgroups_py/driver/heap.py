"""Keeps freed memory in the process while it has much to do.

glibc gives the free end of its heap back to the kernel once it is larger than a limit, and every page of it costs a fault
when it is used again. A member that sends or receives megabytes frees and takes such an end all the time. The limit is twice the
size of the largest block that was mapped alone and freed so far. So taking and freeing one block raises it, and no page
of the block is ever touched. Other allocators take no notice.
"""

from __future__ import annotations

from functools import cache
from typing import Final

KEPT: Final = 4 * 1024 * 1024
"""The most freed bytes at the end of the heap that stay with the process: as many as STABLE lets go at once."""


@cache
def keep() -> None:
    """Let freed bytes stay, up to ``KEPT``. Further calls do nothing."""
    bytes(KEPT // 2)  # freed at once
