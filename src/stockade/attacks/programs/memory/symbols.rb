# /// attack
# guarantee = "memory"
# summary = "Makes symbols, which outlive every use."
# reference = "CVE-2013-1821 and its kind: symbols made from what others send"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | limit memory | says failed to allocate memory | says NoMemoryError", default = "limit memory" }
# ///

require_relative "kit"

kept = []
begin
  (192 * 16).times { |number| kept << format("%065000d", number).to_sym }
rescue NoMemoryError
  kept.clear
  refused "ENOMEM"
end
succeeded
