// /// attack
// guarantee = "processes"
// summary = "Starts threads as workers until no more can be had, in JavaScript."
// reference = "worker_threads in Node's documentation"
// success = "24 stand at one time"
// policy = { limits = { processes = 16, memory = "2GiB", open_files = 1024 } }
// alone = true
// admitted = { gvisor = "more threads of the host" }
// refusal = { default = "errno | crash SIGABRT | crash SIGTRAP | says EAGAIN | says ERR_WORKER" }
// ///

"use strict";
const { Worker } = require("worker_threads");
const { succeeded, refused } = require("./kit");

let standing = 0;
const source = "require('worker_threads').parentPort.postMessage(1); setInterval(() => {}, 1000)";
function more() {
  const worker = new Worker(source, { eval: true });
  worker.on("error", (error) => refused(`EAGAIN at ${standing}: ${error.code}`));
  worker.on("message", () => (++standing === 24 ? succeeded() : more()));
}
more();
