// /// attack
// guarantee = "memory"
// summary = "Fills array buffers, which lie outside the heap that the engine limits."
// reference = "--max-old-space-size in Node's documentation: of the heap alone"
// success = "twice the limit is held"
// policy = { limits = { memory = "192MiB", processes = 40 } }
// refusal = { RLIMIT_DATA = "errno | crash SIGABRT | crash SIGTRAP | limit memory", default = "limit memory" }
// ///

"use strict";
const { succeeded, refused } = require("./kit");

const kept = [];
try {
  for (let count = 0; count < 48; count++) kept.push(new Uint8Array(8 << 20).fill(1));
} catch (error) {
  if (!(error instanceof RangeError)) throw error;
  refused("ENOMEM");
}
succeeded(kept.length);
