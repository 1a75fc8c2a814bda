"""``jgroups-py export``: a member with a port, in a process of its own; and the errors of Spark's part without
Spark."""

from __future__ import annotations

import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.export import ExportAccess, ExportClient, read_token
from jgroups_py.testing.authority import CertificateAuthority


@pytest.mark.sockets
def test_the_export_command_makes_a_token_says_where_it_listens_and_ends_when_told(
    tmp_path: Path,
) -> None:
    """The port has TLS, so its clients need TLS, too."""
    authority = CertificateAuthority(tmp_path)
    files = authority.issue("port")
    tls = ["--tls-certificate", files.certificate, "--tls-key", files.key, "--tls-ca", authority.ca]
    file = tmp_path / "token"
    words = ["export", "--cache", "local.xml", "--token-file", str(file), "--map", "users", *tls]
    with subprocess.Popen(
        [sys.executable, "-m", "jgroups_py.tools", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("local exports users at 127.0.0.1:")
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            address = ("127.0.0.1", int(line.rpartition(":")[2]))
            access = ExportAccess(read_token(str(file)), authority.settings("client"))
            with ExportClient(address, access) as client:
                assert client.describe().map == "users"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


def test_without_spark_it_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from jgroups_py.tools.cli import run\n"
        "sys.exit(run(['spark', 'load', 'x', '--path', '/', '--members', 'a:1', '--token-file', 't']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(
        r"jgroups-py: Spark needs more packages \((pyspark|pyarrow) is missing\): "
        r"pip install 'jgroups_py\[spark\]'",
        done.stderr.strip(),
    )
