"""The caller's end of a socket to the proxy of one run."""

import pytest

from stockade import JobError, Secret
from stockade.client.broker import Broker


def test_secrets_longer_than_the_buffer_are_refused() -> None:
    label = "x" * 60
    hosts = [f"{number}.{label}.{label}.{label}.example.com" for number in range(70_000)]  # 14 MB
    with pytest.raises(JobError, match=r"secrets: values and hosts take \d+ bytes together"):
        Broker({"API_KEY": Secret("value", hosts=hosts)}, None)
