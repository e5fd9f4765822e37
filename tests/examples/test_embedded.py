"""The worked examples of the embedded runtime do what their pages say."""

import json

from examples.embedded import agent, gemfile, rules


def test_rules_price_orders_and_report_their_mistakes():
    assert rules.discounts(rules.RULES) == [4.0, 0.45, 0.0]
    assert rules.discounts(rules.RULES.replace("0.2", "rate")) == ["NameError: name 'rate' is not defined (line 6)"]
    assert "fuel = 100,000" in rules.discounts("def discount(order):\n    while True: pass")[0]


def test_configuration_is_collected():
    found = gemfile.load(gemfile.CONFIGURATION, "test")
    assert found == {
        "source": "https://packages.example",
        "packages": {"rack": "~> 2.0", "puma": "~> 2.0", "minitest": "any"},
    }
    assert "minitest" not in gemfile.load(gemfile.CONFIGURATION, "production")["packages"]


def test_agent_sees_values_and_errors():
    answers = [json.loads(each) for each in agent.main()]
    assert answers[0]["value"] == {"Oslo": -3, "Lima": 19, "Cairo": 28}
    assert answers[1]["value"] == "Cairo"
    assert answers[2]["class_name"] == "HostError"
    assert answers[3]["cap"] == "fuel"
