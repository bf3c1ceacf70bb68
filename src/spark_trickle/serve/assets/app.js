// Keeps pages up to date, sorts and filters tables, remembers dark or light. Pages work without it.
"use strict";
const main = document.getElementById("main");
let sorted = null, wanted = "";

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.getAttribute("datetime"));
    if (!isNaN(at)) { time.title = time.textContent; time.textContent = at.toLocaleString(); }
  }
}

function sortRows() {
  const table = main.querySelector("table.sortable");
  if (!table || !sorted) return;
  const heads = [...table.tHead.rows[0].cells];
  const column = heads.findIndex((th) => th.dataset.sort === sorted.name);
  if (column < 0) return;
  for (const th of heads) th.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
  const value = (row) => row.cells[column].dataset.value ?? "";
  const rows = [...table.tBodies[0].rows];
  const numbers = rows.every((row) => value(row) === "" || !isNaN(Number(value(row))));
  rows.sort((a, b) => {
    const order = numbers ? Number(value(a)) - Number(value(b)) : value(a).localeCompare(value(b));
    return sorted.down ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

function filterRows() {
  const words = wanted.toLowerCase();
  for (const row of main.querySelectorAll("table.sortable tbody tr"))
    row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words);
}

function arrange() {
  localTimes(main);
  sortRows();
  const box = document.getElementById("filter");
  if (box && box.value !== wanted) box.value = wanted;
  filterRows();
}

document.addEventListener("click", (event) => {
  const th = event.target.closest("th[data-sort]");
  if (th) {
    const name = th.dataset.sort;
    sorted = { name, down: sorted && sorted.name === name ? !sorted.down : false };
    sortRows();
  }
  if (event.target.id === "theme") {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
      || (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
    setTheme(dark ? "light" : "dark");
    localStorage.setItem("trickle-theme", dark ? "light" : "dark");
  }
});

document.addEventListener("input", (event) => {
  if (event.target.id === "filter") { wanted = event.target.value; filterRows(); }
});

function setTheme(theme) {
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}

let fetching = false, again = false;
async function refresh() {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(main.dataset.live, { credentials: "same-origin" });
    if (answer.ok) {
      const typing = document.activeElement && document.activeElement.id === "filter";
      const open = [...main.querySelectorAll("details[open]")].map((d) => d.id);
      main.innerHTML = await answer.text();
      for (const id of open) { const d = id && document.getElementById(id); if (d) d.open = true; }
      arrange();
      if (typing) document.getElementById("filter").focus();
    }
  } catch { /* the server is away; EventSource tries again */ }
  fetching = false;
  if (again) { again = false; refresh(); }
}

setTheme(localStorage.getItem("trickle-theme"));
arrange();
if (main.dataset.live) {
  new EventSource("/events").addEventListener("change", refresh);
}
