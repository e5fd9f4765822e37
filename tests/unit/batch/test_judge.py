from stockade.batch import policies
from stockade.batch.judge import Settings


def test_settings_apart_is_alias_of_isolated():
    settings = Settings(policies.default(), tests="apart")
    assert settings == Settings(policies.default()) and settings.tests == "isolated"
