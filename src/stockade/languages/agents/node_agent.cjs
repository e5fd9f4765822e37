// Runs a JavaScript job inside the sandbox and reports its value or its error on descriptor 3.
//
// Once the guest's code runs, it controls everything in this process, so nobody may trust the report.
// Arguments: the script and its arguments. A script runs as under `node -e`. A module is a file that ends in .mjs, or
// source that only compiles as a module. It runs as Node runs modules, except that it lies in the workspace.
'use strict';

const fs = require('fs');
const Module = require('module');
const { dirname, join } = require('path');
const { pathToFileURL } = require('url');
const { inspect, types } = require('util');
const vm = require('vm');

const CHANNEL = 3;
const PIPE = fs.fstatSync(CHANNEL).ino; // shows later whether descriptor 3 is still this pipe: a job may replace it
const LONGEST_TEXT = 64 * 1024;
const LONGEST_VALUE = 512 * 1024;
const UNSETTLED = 13; // Node's own exit status for a module that waits for an unsettled promise

let report = null;
let pending = false;

function main() {
  startPool();
  process.argv.splice(1, 1);
  process.execArgv = [];
  const script = process.argv[1];
  process.on('uncaughtExceptionMonitor', fail);
  process.on('exit', (code) => {
    if (pending && code === 0) process.exitCode = UNSETTLED;
    writeReport();
  });
  run(fs.readFileSync(script, 'utf8'), script);
}

// Starts libuv's threads, which libuv does only at the first use. They must all exist before the job, to be counted.
function startPool() {
  const before = process.env.UV_THREADPOOL_SIZE;
  process.env.UV_THREADPOOL_SIZE = '4';
  fs.stat('/', () => {});
  if (before === undefined) delete process.env.UV_THREADPOOL_SIZE;
  else process.env.UV_THREADPOOL_SIZE = before;
}

function run(source, script) {
  const options = { filename: script, importModuleDynamically: load };
  if (script.endsWith('.mjs')) return runModule(moduleOf(source, script));
  let compiled;
  try {
    compiled = new vm.Script(source, options);
  } catch (error) {
    if (script.endsWith('.cjs')) throw error;
    return runModule(moduleOf(source, script, error));
  }
  asMain(script);
  return succeed(compiled.runInThisContext());
}

// -- modules ----------------------------------------------------------------------------------------------------

// Returns an import() function that resolves names as from a file at `place`.
function importsOf(place) {
  const asking = new Module(place);
  asking.filename = place;
  asking._compile('module.exports = (name, options) => import(name, options)', place);
  return asking.exports;
}

const fromWorkspace = importsOf(join(process.cwd(), 'main.js'));
const fromPackages = process.env.NODE_PATH && importsOf(join(dirname(process.env.NODE_PATH), 'main.js'));

// Imports from the workspace, else from the packages: Node uses NODE_PATH for require() only.
async function load(name) {
  try {
    return await fromWorkspace(name);
  } catch (error) {
    if (!fromPackages || error?.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    return fromPackages(name);
  }
}

// Returns `source` as a module, or throws its error. `asScript` is the error of compiling it as a script.
function moduleOf(source, script, asScript) {
  const emitWarning = process.emitWarning;
  process.emitWarning = () => {}; // Node warns that modules from source text are experimental
  const identifier = pathToFileURL(script).href;
  const initializeImportMeta = (meta) => Object.assign(meta, { url: identifier, filename: script, dirname: dirname(script) });
  try {
    return new vm.SourceTextModule(source, { identifier, initializeImportMeta, importModuleDynamically: load });
  } catch (error) {
    throw asScript && !/\b(import|export|await)\b/.test(asScript.message) ? asScript : error;
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Runs a module and reports its default export as the value.
async function runModule(made) {
  pending = true;
  await made.link(async (name) => {
    const found = await load(name);
    const names = Object.keys(found);
    return new vm.SyntheticModule(names, function () {
      for (const each of names) this.setExport(each, found[each]);
    });
  });
  await made.evaluate();
  pending = false;
  return succeed(made.namespace.default);
}

// -- scripts ----------------------------------------------------------------------------------------------------

// Gives a script the globals of a main module. It requires from the workspace.
function asMain(script) {
  const own = new Module(script);
  own.filename = script;
  own.paths = Module._nodeModulePaths(process.cwd());
  process.mainModule = own;
  const require = Module.createRequire(join(process.cwd(), 'main.js'));
  Object.assign(globalThis, { require, module: own, exports: own.exports, __filename: script, __dirname: dirname(script) });
}

// -- the job's value or error -------------------------------------------------------------------------------------

// Stores the value for the report: its inspect, and the value itself if JSON can represent it. Awaits a promise.
async function succeed(given) {
  const value = types.isPromise(given) ? await given : given;
  if (value === undefined) return;
  report = {};
  try {
    report.repr = clip(inspect(value, { maxStringLength: LONGEST_TEXT }));
  } catch (error) {
    report.repr = clip(`<inspect failed: ${describe(error)}>`);
  }
  try {
    if (isPlain(value) && JSON.stringify(value).length <= LONGEST_VALUE) report.value = value;
  } catch {
    // nested too deeply, or circular
  }
}

// Returns the beginning of a text, without half of a surrogate pair at its end.
function clip(text) {
  if (text.length <= LONGEST_TEXT) return text;
  const last = text.charCodeAt(LONGEST_TEXT - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? LONGEST_TEXT - 1 : LONGEST_TEXT);
}

// Returns the name and the message of a thrown value.
function describe(error) {
  try {
    return String(error);
  } catch {
    return typeof error;
  }
}

function isPlain(value) {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.every(isPlain);
  const kind = Object.getPrototypeOf(value);
  return (kind === Object.prototype || kind === null) && Object.values(value).every(isPlain);
}

// Stores an uncaught error for the report, with the frames of the job's own code. Node prints it and ends.
function fail(error) {
  if (process.listenerCount('uncaughtException') > 0) return; // the job handles it
  pending = false;
  const isError = types.isNativeError(error) || error instanceof Error;
  const fields = { type: typeof error, message: '', traceback: '' };
  try {
    if (isError) {
      error.stack = ownFrames(String(error.stack));
      Object.assign(fields, { type: String(error.name), message: String(error.message), traceback: error.stack });
    } else {
      fields.message = inspect(error);
      fields.traceback = `Uncaught ${fields.message}`;
    }
  } catch {
    // the error's own accessors fail
  }
  for (const key of Object.keys(fields)) fields[key] = clip(fields[key]);
  report = { error: fields };
}

// Drops the frames of this file, and Node's frames before and after them.
function ownFrames(stack) {
  const lines = stack.split('\n');
  const first = lines.findIndex((line) => line.includes(__filename));
  if (first < 0) return stack;
  const kept = lines.slice(0, first);
  while (/^ +at .*\(?node:(vm|internal)/.test(kept[kept.length - 1])) kept.pop();
  return kept.join('\n');
}

function writeReport() {
  if (report === null) return;
  try {
    let left = Buffer.from(JSON.stringify(report) + '\n');
    while (left.length && fs.fstatSync(CHANNEL).ino === PIPE) left = left.subarray(fs.writeSync(CHANNEL, left));
  } catch {
    // the reader may have closed the channel
  }
}

main();
