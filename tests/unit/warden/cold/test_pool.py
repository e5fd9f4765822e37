"""How long an instance waits that was made ahead of demand."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.warden.cold.pool import Pool


class _Slot(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def _slot(*, without_namespaces: bool) -> Any:
    return _Slot(asked=100.0, without_namespaces=without_namespaces, instance=object())


def test_waiting_sandbox_of_an_engine_goes_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = cast(Any, None)
    pool = Pool(nothing, nothing, nothing, warden=-1, privileged=False)
    own, engines = _slot(without_namespaces=False), _slot(without_namespaces=True)
    pool._prewarmed = [own, engines]
    dropped: list[Any] = []
    monkeypatch.setattr(pool, "drop", dropped.append)
    assert pool.tick(159.0) == 160.0
    assert dropped == []
    pool.tick(160.0)
    assert dropped == [engines]
