// /// attack
// guarantee = "filesystem_read"
// summary = "Reads a file of the host by Node's own ways: fs, a module's path, and the bindings below them."
// reference = "process.binding in Node's documentation"
// success = "the secret is read"
// stage = ["canary"]
// observe = ["secret"]
// policy = { limits = { memory = "1GiB", processes = 40, open_files = 256 } }
// refusal = { process = "errno EACCES", default = "errno ENOENT" }
// ///

"use strict";
const fs = require("fs");
const { succeeded, refused, target, hasSecret } = require("./kit");

let refusal = "";
const ways = [
  () => fs.readFileSync(target("CANARY"), "latin1"),
  () => fs.readFileSync(`/proc/self/root${target("CANARY")}`, "latin1"),
  () => require("child_process").execFileSync("/bin/cat", [target("CANARY")], { stdio: ["ignore", "pipe", "ignore"] }),
];
for (const way of ways) {
  try {
    if (hasSecret(way())) succeeded();
  } catch (error) {
    refusal ||= error.code;
  }
}
refused(refusal);
