// Runs pytest on the CPython that the npm package pyodide has compiled to WebAssembly.
// Arguments: the package's folder, the repository, a folder with pytest and what it needs, and arguments of pytest.
import { pathToFileURL } from "node:url";

const [pyodide, repository, site, ...args] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide();
for (const [place, root] of [["/repository", repository], ["/site", site]]) {
  python.FS.mkdir(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
python.globals.set("ARGS", python.toPy(args));
let status = 1;
try {
  status = python.runPython(`
import os, sys
sys.path[:0] = ["/repository/src", "/repository", "/site"]
sys.dont_write_bytecode = True
os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "STOCKADE_WHOLE": "1"}
os.chdir("/repository")
print(f"== Python {sys.version.split()[0]} on {sys.platform}")
import pytest
int(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=/repository", "--noconftest", *ARGS]))
`);
} catch (error) {
  console.error(String(error.message).slice(-4000)); // the rest is the text of the whole module
}
process.exit(status);
