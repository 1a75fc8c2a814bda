from __future__ import annotations

import pytest

from jgroups_py.testing.authority import CertificateAuthority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Return one authority for all tests of a process. Its files are not changed."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))
