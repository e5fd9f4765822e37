// /// attack
// guarantee = "network"
// summary = "Connects to a service on the host's loopback, in JavaScript."
// reference = "net in Node's documentation"
// success = "the service answers"
// stage = ["tcp"]
// observe = ["heard"]
// policy = { limits = { memory = "1GiB", processes = 40, open_files = 256 } }
// refusal = { process = "denied EACCES", default = "errno ECONNREFUSED" }
// ///

"use strict";
const net = require("net");
const { succeeded, judge, target } = require("./kit");

const connection = net.connect(Number(target("PORT")), "127.0.0.1");
connection.on("error", (error) => judge(error, "ECONNREFUSED"));
connection.on("data", (data) => data.toString() === "heard" && succeeded());
