// Runs cells of JavaScript, one after another in one global scope. The session agent starts it as a program of its own.
//
// It shares its process with the guest's code, so nobody may trust what it sends. See session_agent.py for the frames.
// Between cells, nothing runs: timers that a cell left go on while a later cell waits for something.
'use strict';
{
  const fs = require('fs');
  const path = require('path');
  const util = require('util');
  const vm = require('vm');
  const IN = 198, OUT = 199, LONGEST = 64 * 1024;
  const { stringify, parse } = JSON;
  let count = 0;
  let stop = null;

  const write = (kind, payload) => {
    const body = Buffer.from(payload);
    const head = Buffer.alloc(5);
    head.write(kind, 'latin1');
    head.writeUInt32BE(body.length, 1);
    let data = Buffer.concat([head, body]);
    while (data.length) data = data.subarray(fs.writeSync(OUT, data));
  };
  const read = (size) => {
    const data = Buffer.alloc(size);
    for (let at = 0; at < size;) {
      const got = fs.readSync(IN, data, at, size - at, null);
      if (!got) process.exit(0);
      at += got;
    }
    return data;
  };
  const shown = (value) => {
    try {
      return util.inspect(value).slice(0, LONGEST);
    } catch (error) {
      return '<inspect failed>';
    }
  };
  const fail = (error) => {
    let type = 'Error', message = '', traceback = '';
    try {
      const own = error instanceof Error || util.types.isNativeError(error);
      type = own ? String(error.name) : typeof error;
      message = own ? String(error.message) : shown(error);
      traceback = own ? String(error.stack).split('\n').filter((line) => !/\[eval\]|node:/.test(line)).join('\n') : message;
    } catch (other) {
      message = '<the error has no text>';
    }
    if (error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') [type, message] = ['KeyboardInterrupt', 'interrupted'];
    write('x', stringify({
      type: type.slice(0, 200), message: message.slice(0, LONGEST), traceback: traceback.slice(0, LONGEST) + '\n',
    }));
  };
  const evaluate = (source, filename) => {
    const options = { filename, breakOnSigint: true };
    let script;
    try {
      script = new vm.Script(source, { filename });
    } catch (error) {
      if (!/await is only valid/.test(String(error.message))) throw error;
      script = new vm.Script(`(async () => {${source}\n})()`, { filename });
    }
    return script.runInThisContext(options);
  };
  const cell = async (source) => {
    count += 1;
    try {
      write('r', '');
      let value = evaluate(source, `<cell ${count}>`);
      if (util.types.isPromise(value)) {
        const interrupted = new Promise((_, reject) => { stop = reject; });
        value = await Promise.race([value, interrupted]);
      }
      if (value !== undefined) {
        const text = shown(value);
        write('v', stringify({ repr: text, data: { 'text/plain': text } }));
      }
    } catch (error) {
      fail(error);
    } finally {
      stop = null;
    }
  };
  process.on('SIGINT', () => {
    if (stop) stop(Object.assign(new Error('interrupted'), { name: 'KeyboardInterrupt' }));
  });
  for (const kind of ['uncaughtException', 'unhandledRejection']) {
    process.on(kind, (error) => { process.stderr.write(`${shown(error)}\n`); });
  }
  globalThis.require = require('module').createRequire(path.join(process.cwd(), 'cell.js'));
  write('h', stringify({ version: process.versions.node }));
  (async () => {
    for (;;) {
      const head = read(5);
      const request = parse(read(head.readUInt32BE(1)).toString());
      await cell(String(request.source));
      write('.', request.token);
    }
  })();
}
