// /// attack
// guarantee = "no_survivors"
// summary = "Starts a process of its own session and lets go of it, in JavaScript."
// reference = "child_process in Node's documentation: detached, unref"
// success = "it is there when the run is over"
// observe = ["survivors"]
// control = { success = "status 42" }
// policy = { limits = { memory = "1GiB", processes = 40, open_files = 256 } }
// refusal = { default = "verdict failed 42" }
// ///

"use strict";
const { spawn } = require("child_process");
const { target } = require("./kit");

const words = ["-c", "sleep 5; :", `${target("MARKER")}-detached`];
spawn("/bin/sh", words, { detached: true, stdio: "ignore" }).unref();
setTimeout(() => process.exit(42), 300);
