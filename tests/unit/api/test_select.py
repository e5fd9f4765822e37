"""The choice of a backend: a function of the policy, the trust and what each backend can do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from stockade import BackendUnavailable, Enforcement, Guarantee, Isolation, JobError, PlanError, Policy, Strength
from stockade.api import select, start_costs
from stockade.backends import registry
from stockade.backends.base import Availability, Traits
from tests.unit import facts as hosts

STRONG = {guarantee: Enforcement("a wall", Strength.KERNEL) for guarantee in Guarantee}


@dataclass
class Fake:
    name: str
    isolation: Isolation = Isolation.NAMESPACES
    usable: bool = True
    weak: tuple[Guarantee, ...] = ()
    asked: list[str] = field(default_factory=list)
    traits = Traits()

    def availability(self, facts: Any) -> Availability:
        self.asked.append(self.name)
        return Availability(self.usable, "it is broken", "mend it")

    def capabilities(self, facts: Any, policy: Any) -> dict[Guarantee, Enforcement]:
        return STRONG | {guarantee: Enforcement.absent("no wall") for guarantee in self.weak}

    def prepare(self, *_: Any) -> Any:
        raise AssertionError("nothing is started")


Among = Callable[..., Callable[..., select.Selection]]


@pytest.fixture
def among(monkeypatch: pytest.MonkeyPatch) -> Iterator[Among]:
    def register(*backends: Fake, costs: dict[str, float] | None = None) -> Callable[..., select.Selection]:
        there = {backend.name: backend for backend in backends}
        monkeypatch.setattr(registry, "BUILT_IN", dict.fromkeys(there, ""))
        monkeypatch.setattr(registry, "_STANDING", {})
        monkeypatch.setattr(registry, "find", there.__getitem__)
        monkeypatch.setattr(registry, "others", list)
        monkeypatch.setattr(start_costs, "known", lambda: costs or {})
        return lambda trust=None, **policy: select.select(Policy(**policy), hosts.ROOT_V1, trust)

    yield register


def test_select_takes_the_strongest(among: Among) -> None:
    choose = among(Fake("light", Isolation.PROCESS), Fake("strong", Isolation.OWN_KERNEL), Fake("middle"))
    assert choose().backend.name == "strong"
    assert "strongest isolation" in choose().reason


def test_select_among_equals_ignores_start_costs(among: Among) -> None:
    a, b = Fake("a"), Fake("b")
    assert among(a, b)().backend.name == "a"
    assert among(a, b, costs={"b": 0.001, "a": 0.002})().backend.name == "a"


def test_trusted_code_gets_the_cheapest(among: Among) -> None:
    light, strong = Fake("light", Isolation.PROCESS), Fake("strong", Isolation.OWN_KERNEL)
    assert among(light, strong)("trusted").backend.name == "light"
    assert among(light, strong)().backend.name == "strong"


def test_select_does_not_ask_backends_after_its_choice(among: Among) -> None:
    first, second = Fake("first"), Fake("second")
    among(first, second)()
    assert (first.asked, second.asked) == (["first"], [])


def test_select_names_the_backends_that_it_passes_over(among: Among) -> None:
    choose = among(Fake("broken", usable=False), Fake("weak", weak=(Guarantee.DISK,)), Fake("good"))
    chosen = choose()
    assert chosen.backend.name == "good"
    assert "broken (it is broken; mend it)" in chosen.reason
    assert "weak (cannot hold disk)" in chosen.reason


def test_select_without_a_backend_says_first_what_works_here(among: Among) -> None:
    choose = among(Fake("broken", usable=False), Fake("weak", Isolation.PROCESS, weak=(Guarantee.DISK,)))
    with pytest.raises(BackendUnavailable) as caught:
        choose()
    assert str(caught.value).split("\n") == [
        "no backend can hold this policy here",
        "works here: accept={'disk': 'absent'} (backend weak, isolation by process)",
        "broken: it is broken; mend it",
        "weak: cannot hold disk",
    ]
    assert choose(accept=caught.value.accept).backend.name == "weak"


def test_select_suggests_only_what_the_isolation_allows(among: Among) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        among(Fake("broken", usable=False), Fake("p", Isolation.PROCESS, weak=(Guarantee.DISK,)))(
            isolation="namespaces"
        )
    assert caught.value.accept == {}


def test_select_refuses_less_than_the_policys_isolation(among: Among) -> None:
    process, namespaces = Fake("p", Isolation.PROCESS), Fake("n")
    with pytest.raises(BackendUnavailable, match="p: isolates by process only, and the policy asks for namespaces"):
        among(process)(isolation="namespaces")
    with pytest.raises(BackendUnavailable, match="semi-trusted code asks for namespaces"):
        among(process)("semi-trusted")
    with pytest.raises(BackendUnavailable, match="isolation='namespaces'"):
        among(process, namespaces)("untrusted")
    chosen = among(process, namespaces)("untrusted", isolation="namespaces")
    assert chosen.backend.name == "n"
    assert "which the policy says is enough" in chosen.reason


def test_a_policy_cannot_lower_what_semi_trusted_code_needs(among: Among) -> None:
    with pytest.raises(BackendUnavailable):
        among(Fake("p", Isolation.PROCESS))("semi-trusted", isolation="process")


def test_untrusted_code_gets_its_own_kernel(among: Among) -> None:
    assert among(Fake("n"), Fake("vm", Isolation.OWN_KERNEL))("untrusted").backend.name == "vm"


@pytest.mark.parametrize("limit", ["cpu_time", "wall_time", "memory", "processes", "disk", "output"])
def test_semi_trusted_code_needs_every_limit(among: Among, limit: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"lifts {limit}"):
        among(Fake("n"))("semi-trusted", limits={limit: "unlimited"})


def test_select_reports_what_the_first_choice_lacks(among: Among) -> None:
    with pytest.raises(PlanError) as caught:
        among(Fake("n", weak=(Guarantee.DISK,)), Fake("p", Isolation.PROCESS, usable=False))()
    assert set(caught.value.missing) == {"disk"}


def test_select_refuses_unknown_trust(among: Among) -> None:
    with pytest.raises(JobError, match="there are: trusted, semi-trusted, untrusted"):
        among(Fake("n"))("some")


def test_select_never_takes_a_backend_of_a_subset() -> None:
    """Only the metered backend counts operations this strongly, and its language is a subset: a caller must name it."""
    policy = Policy(limits={"operations": 1000}, accept={"operations": "runtime"})
    assert select.named(registry.find("metered"), policy, hosts.ROOT_V1).plan.backend == "metered"
    for trust in (None, *select.Trust):
        assert not {each.backend.name for each in select.candidates(policy, hosts.ROOT_V1, trust)} & {*registry.BY_NAME}
        with pytest.raises((PlanError, BackendUnavailable)) as caught:
            select.select(policy, hosts.ROOT_V1, trust)
        assert "metered" not in str(caught.value)


def _emulator(**fields: Any) -> Fake:
    emulator = Fake("slow", Isolation.OWN_KERNEL, **fields)
    emulator.traits = Traits(emulates=True, refuses={"filesystem.read": "it shows none"})
    return emulator


def test_emulator_beside_holder_is_not_tried(among: Among) -> None:
    emulator = _emulator()
    among(Fake("n"), emulator)
    *_, last = select.candidates(Policy(), hosts.ROOT_V1)
    assert (last.is_tried, last.plan, emulator.asked) == (False, None, [])
    assert "n holds the policy" in last.trouble
    *_, last = select.candidates(Policy(isolation="own_kernel"), hosts.ROOT_V1)
    assert (last.is_tried, emulator.asked) == (True, ["slow"])
    assert last.plan is not None


def test_refused_field_cannot_be_accepted(among: Among) -> None:
    choose = among(Fake("n"), _emulator())
    with pytest.raises(BackendUnavailable, match=r"slow: cannot hold filesystem\.read") as caught:
        choose(isolation="own_kernel", filesystem={"read": ["/srv"]})
    assert caught.value.accept == {}


def test_registry_knows_the_order_without_the_backends() -> None:
    """``select`` orders the built-in backends by what the registry says of them, and imports no other for that."""
    assert registry.BUILT_IN.keys() == registry._STANDING.keys()
    for name in registry.BUILT_IN:
        backend = registry.find(name)
        assert registry.standing(name) == (backend.isolation, backend.traits.emulates), name


def test_select_orders_a_foreign_backend_by_its_own_word(among: Among, monkeypatch: pytest.MonkeyPatch) -> None:
    strong = Fake("strong", Isolation.OWN_KERNEL)
    among(Fake("light", Isolation.PROCESS))
    there = {"light": Fake("light", Isolation.PROCESS), "strong": strong}
    monkeypatch.setattr(registry, "find", there.__getitem__)
    monkeypatch.setattr(registry, "others", lambda: ["strong"])
    assert select.select(Policy(), hosts.ROOT_V1).backend is strong
