# /// attack
# guarantee = "memory"
# summary = "Parses XML whose entities blow it up, kept below the factor at which the parser itself would refuse."
# reference = "CVE-2013-1664; libexpat's amplification limit"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | limit memory", default = "limit memory" }
# ///

from xml.etree import ElementTree

from kit import refused, succeeded

entity, padding = "x" * 100_000, " " * 2_500_000
text = f'<!DOCTYPE d [<!ENTITY e "{entity}">]><d>{padding}{"&e;" * 2000}</d>'
try:
    made = ElementTree.fromstring(text)
except MemoryError:
    refused("ENOMEM")
succeeded(len(made.text))
