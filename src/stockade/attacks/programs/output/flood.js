// /// attack
// guarantee = "output"
// summary = "Floods standard output from JavaScript, whose writes to pipes need not wait."
// reference = "process.stdout in Node's documentation"
// success = "a hundred times the limit is written"
// control = { success = "bytes stdout 1000000" }
// policy = { limits = { output = 10000, memory = "1GiB", processes = 40 } }
// refusal = { default = "cut stdout" }
// ///

"use strict";
const block = "x".repeat(1000);
for (let count = 0; count < 1000; count++) process.stdout.write(block);
process.stdout.write("", () => process.exit(42));
