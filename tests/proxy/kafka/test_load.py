"""What is there before the first reader comes."""

from __future__ import annotations

import subprocess
import sys

SEES = """
from proxy.protocols import PROTOCOLS
import sys
assert not any(name.startswith("kio") for name in sys.modules), "kio is imported by the table of protocols"
PROTOCOLS["kafka"].load()
from proxy.protocols.kafka import schema
before = set(sys.modules)
for key, version in ((18, 4), (36, 2), (3, 13), (10, 6), (0, 13), (1, 18)):
    schema.request(key, version), schema.response(key, version)
print(sorted(set(sys.modules) - before))
"""


def test_what_clients_begin_with_is_loaded_before_the_first_and_nothing_where_there_is_no_kafka() -> None:
    done = subprocess.run([sys.executable, "-c", SEES], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")
