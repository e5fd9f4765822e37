// /// attack
// guarantee = "cpu_time"
// summary = "Has a regular expression backtrack for ever in JavaScript, whose one thread sees to nothing else."
// reference = "CWE-1333"
// success = "it is still at it after three seconds"
// control = { success = "alive", seconds = 3 }
// policy = { limits = { cpu_time = 0.6, memory = "1GiB", processes = 40 } }
// refusal = { default = "limit cpu_time" }
// ///

"use strict";
/^(a|a)*b$/.test("a".repeat(64));
