"""All families of attacks. Each new file of attacks has a line here."""

from __future__ import annotations

import attacks_on_calls
import attacks_on_membership
import attacks_on_places
import attacks_without_name
from attack_kit import Family

FAMILIES: tuple[Family, ...] = (
    attacks_on_calls.FAMILY,
    attacks_without_name.FAMILY,
    attacks_on_membership.FAMILY,
    attacks_on_places.FAMILY,
)
