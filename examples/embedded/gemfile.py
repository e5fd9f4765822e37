"""Configuration in the style of a Gemfile: host functions collect what the script declares."""

from stockade.embedded import Caps, HostError, Runtime

CONFIGURATION = """
source("https://packages.example")

for name in ['rack', 'puma']:
    package(name, '~> 2.0')

if environment() == 'test':
    package('minitest')
"""


def load(text: str, environment: str) -> dict[str, object]:
    found: dict[str, object] = {"source": None, "packages": {}}
    packages: dict[str, str] = {}

    def source(url: str) -> None:
        if not url.startswith("https://"):
            raise HostError("a source needs https")
        found["source"] = url

    def package(name: str, version: str = "any") -> None:
        if name in packages:
            raise HostError(f"{name} is declared twice")
        packages[name] = version

    with Runtime(Caps.semi_trusted(), trust="semi-trusted") as runtime:
        runtime.register("source", source)
        runtime.register("package", package)
        runtime.register("environment", lambda: environment)
        runtime.run(text, filename="Packages")
    return found | {"packages": packages}


if __name__ == "__main__":
    print(load(CONFIGURATION, "test"))
