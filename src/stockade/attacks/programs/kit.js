// What attack programs in JavaScript share: the sentinel exit codes, and refusals checked to the errno.
"use strict";
const fs = require("fs");

function finish(code, word, note) {
  try {
    fs.writeSync(1, `${word} ${note}\n`);
  } finally {
    process.exit(code);
  }
}
const succeeded = (note = "") => finish(42, "ATTACK SUCCEEDED", note);
const refused = (note = "") => finish(43, "REFUSED", note);
const couldNotRun = (note = "") => finish(44, "COULD NOT RUN", note);

// What an error means: one of those in `expected` is the refusal; any other spoils the run.
function judge(error, ...expected) {
  const name = error.code || String(error);
  return expected.includes(name) ? refused(name) : couldNotRun(`unexpected ${name}: ${error.message}`);
}

function attempt(action, ...expected) {
  try {
    return action();
  } catch (error) {
    return judge(error, ...expected);
  }
}

function target(name) {
  return process.env[`ATTACK_${name}`] || couldNotRun(`nothing was prepared: ${name}`);
}

// Whether the canary's secret stands in `text`; it is shown if so.
function hasSecret(text) {
  const found = /CANARY-[0-9a-f]{32}/.exec(String(text));
  if (found) fs.writeSync(1, `${found[0]}\n`);
  return found !== null;
}

module.exports = { succeeded, refused, couldNotRun, judge, attempt, target, hasSecret };
