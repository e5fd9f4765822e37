// /// attack
// guarantee = "wall_time"
// summary = "Lives on promises that resolve at once, so that no timer of its own is ever due."
// reference = "the event loop in Node's documentation"
// success = "three times the limit goes by"
// policy = { limits = { wall_time = 0.7, memory = "1GiB", processes = 40 } }
// refusal = { default = "limit wall_time" }
// ///

"use strict";
const { succeeded } = require("./kit");

setTimeout(() => process.exit(44), 1);
(async () => {
  const end = Date.now() + 2100;
  while (Date.now() < end) await null;
  succeeded();
})();
