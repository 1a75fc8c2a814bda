"""Key pairs of simulated members: the same for the same seed, and quickly made. They protect nothing."""

from __future__ import annotations

import functools
import random
from typing import Final

BITS: Final = 1024
"""Bits of every simulated key, also if a stack file asks for more: longer ones take a second each."""
_EXPONENT: Final = 65537
_SMALL: Final = tuple(n for n in range(3, 2000, 2) if all(n % d for d in range(3, 45, 2) if d < n))
_ROUNDS: Final = 8
"""Rounds of Miller and Rabin for a random number of this size: far more than a simulation needs."""


@functools.lru_cache(maxsize=256)
def seeded_key_pair(seed: str, bits: int = BITS) -> bytes:
    """Return a private key of RSA as DER (PKCS #8), which ``seed`` alone decides. It always has BITS."""
    # Only simulations of members that encrypt need the library.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    drawn = random.Random(f"key pair {seed}")
    p, q = _prime(drawn), _prime(drawn)
    d = pow(_EXPONENT, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p,
        q,
        d,
        rsa.rsa_crt_dmp1(d, p),
        rsa.rsa_crt_dmq1(d, q),
        rsa.rsa_crt_iqmp(p, q),
        rsa.RSAPublicNumbers(_EXPONENT, p * q),
    )
    return numbers.private_key().private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _prime(drawn: random.Random) -> int:
    """Return a prime of half the bits. Its two highest bits are set, so the product has all bits."""
    size = BITS // 2
    while True:
        n = drawn.getrandbits(size) | 3 << (size - 2) | 1
        if all(n % s for s in _SMALL) and (n - 1) % _EXPONENT and _is_prime(n, drawn):
            return n


def _is_prime(n: int, drawn: random.Random) -> bool:
    """Return whether n is prime, by Miller and Rabin."""
    shift = ((n - 1) & -(n - 1)).bit_length() - 1
    odd = (n - 1) >> shift
    for _ in range(_ROUNDS):
        x = pow(drawn.randrange(2, n - 1), odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(shift - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True
