"use strict";
// Everything that came out of a program is set as text (textContent), never as markup.
const rows = JSON.parse(document.getElementById("data").textContent);
const body = document.querySelector("#programs tbody");
const text = document.getElementById("text"), verdict = document.getElementById("verdict");
const count = document.getElementById("count"), more = document.getElementById("more");
const STEP = 200;
let sortedBy = "number", descending = false, shown = STEP;

const word = row => row.limit ? `${row.verdict}: ${row.limit}` : row.verdict;
for (const row of rows) {
  row.word = word(row);
  row.all = [row.id, row.problem, row.reason, ...row.cases.flatMap(one => [one.stdout, one.stderr])].join("\n").toLowerCase();
}
for (const name of [...new Set(rows.map(row => row.word))].sort()) verdict.append(new Option(name, name));

function cell(tag, content, kind) {
  const made = document.createElement(tag);
  made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

function seconds(value) {
  return value < 10 ? `${value.toFixed(2)} s` : `${value.toFixed(0)} s`;
}

function bytes(value) {
  return value === null ? "" : `${(value / 1048576).toFixed(1)} MiB`;
}

function program(row) {
  const line = document.createElement("tr");
  line.className = "program";
  line.append(
    cell("td", row.number, "number"), cell("td", row.id), cell("td", row.problem),
    cell("td", row.word, `verdict ${row.verdict}`), cell("td", seconds(row.seconds), "number"),
    cell("td", bytes(row.memory), "number"), cell("td", row.reason));
  line.addEventListener("click", () => toggle(line, row));
  return line;
}

function toggle(line, row) {
  const next = line.nextElementSibling;
  if (next && next.className === "opened") return next.remove();
  const opened = document.createElement("tr"), details = cell("td", "", "details");
  opened.className = "opened";
  details.colSpan = 7;
  for (const one of row.cases) {
    details.append(cell("h2", `${one.name || "run"}: ${word(one)}, ${seconds(one.seconds)}`), cell("p", one.reason));
    for (const stream of ["stdout", "stderr"])
      if (one[stream]) details.append(cell("p", stream), cell("pre", one[stream]));
  }
  if (row.more) details.append(cell("p", `... and ${row.more} cases more`));
  opened.append(details);
  line.after(opened);
}

function compare(one, other) {
  const a = one[sortedBy], b = other[sortedBy];
  const order = typeof a === "string" ? a.localeCompare(b) : (a ?? -1) - (b ?? -1);
  return (descending ? -order : order) || one.number - other.number;
}

function show() {
  const wanted = text.value.toLowerCase();
  const found = rows.filter(row => (!verdict.value || row.word === verdict.value) && row.all.includes(wanted));
  found.sort(compare);
  body.replaceChildren(...found.slice(0, shown).map(program));
  count.textContent = `${found.length} of ${rows.length}`;
  more.hidden = found.length <= shown;
}

function restart() {
  shown = STEP;
  show();
}

document.getElementById("filter").addEventListener("submit", event => event.preventDefault());
text.addEventListener("input", restart);
verdict.addEventListener("input", restart);
more.addEventListener("click", () => { shown += STEP; show(); });
for (const head of document.querySelectorAll("#programs th"))
  head.addEventListener("click", () => {
    descending = sortedBy === head.dataset.key && !descending;
    sortedBy = head.dataset.key;
    restart();
  });

// page.html#text=WORDS&verdict=failed&open shows a choice, and opens its first program
const asked = new URLSearchParams(location.hash.slice(1));
text.value = asked.get("text") ?? "";
verdict.value = asked.get("verdict") ?? "";
show();
if (asked.has("open") && body.firstElementChild) body.firstElementChild.click();
