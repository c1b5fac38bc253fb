// Saving: what is on the form goes to the server as soon as it changes; "saved" is said only when the server has said so.
// Saves go one after another; whoever leaves waits for the last one, and is told when it did not work.

const form = document.getElementById("review");
const state = document.getElementById("save");
const UNDO = "draftmill.undo";

let running = null;   // the save in flight
let dirty = false;    // something on the form that was not sent yet
let timer = 0;
let stored = null;    // what the server has, as far as we know

function value() {
  const data = new FormData(form);
  return { verdict: data.get("verdict") || "", tags: data.getAll("tags").map(String), note: String(data.get("note") ?? "") };
}

function fill(wanted) {
  for (const radio of form.elements.verdict) radio.checked = radio.value === wanted.verdict;
  for (const box of form.querySelectorAll("[name=tags]")) box.checked = wanted.tags.includes(box.value);
  form.elements.note.value = wanted.note;
}

const same = (left, right) => JSON.stringify([left.verdict, [...left.tags].sort(), left.note.trim()]) === JSON.stringify([right.verdict, [...right.tags].sort(), right.note.trim()]);

function tell(text, name) { state.textContent = text; state.className = `save ${name}`; }

async function send() {
  const wanted = value();
  const body = new URLSearchParams(new FormData(form));
  dirty = false;
  tell("Saving…", "");
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" }, redirect: "error", keepalive: body.toString().length < 60000 });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.detail ?? `The server answered ${answer.status}.`);
    form.elements.version.value = said.version;
    if (stored && !same(stored, wanted)) remember(stored);
    stored = wanted;
    tell(`Saved ${new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })}`, "saved");
    return true;
  } catch (error) {
    dirty = true;
    tell("NOT SAVED", "unsaved");
    state.title = error instanceof TypeError ? "The server cannot be reached." : error.message;
    state.append(Object.assign(document.createElement("span"), { className: "unseen", textContent: ` ${state.title}` }));
    return false;
  }
}

// Saves what is there now; resolves to whether everything is saved.
export async function save() {
  clearTimeout(timer);
  while (running) await running;
  if (!dirty && stored && same(stored, value())) return true;
  running = send();
  const done = await running;
  running = null;
  return done && !dirty ? true : done ? save() : false;
}

export function busy() { return running !== null; }

function soon(ms) { dirty = true; clearTimeout(timer); timer = setTimeout(save, ms); }

function remember(before) {
  const list = JSON.parse(sessionStorage.getItem(UNDO) ?? "[]");
  list.push({ sample: form.dataset.sample, page: location.pathname + location.search, before });
  sessionStorage.setItem(UNDO, JSON.stringify(list.slice(-50)));
  const undo = document.getElementById("undo");
  if (undo) undo.hidden = false;
}

export async function undo() {
  const list = JSON.parse(sessionStorage.getItem(UNDO) ?? "[]");
  const last = list.at(-1);
  if (!last || busy()) return;
  if (last.sample !== form.dataset.sample) { // the last decision was made on another sample: go there, and take it back there
    if (await save()) { sessionStorage.setItem(`${UNDO}.now`, "1"); location.assign(last.page); }
    return;
  }
  sessionStorage.setItem(UNDO, JSON.stringify(list.slice(0, -1)));
  fill(last.before);
  stored = null; // an undone state is not something to undo to
  dirty = true;
  await save();
}

// Leaves for `href` once everything is saved.
export async function leave(href) {
  if (!href) { await save(); return; }
  if (await save()) location.assign(href);
}

export function start() {
  if (!form) return;
  stored = value();
  form.addEventListener("change", (event) => { if (event.target.name === "verdict" || event.target.name === "tags") { dirty = true; save(); } });
  form.elements.note.addEventListener("input", (event) => { if (!event.isComposing) soon(900); else dirty = true; });
  form.elements.note.addEventListener("change", () => soon(0));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    const next = event.submitter?.value === "next";
    if (busy() && !next) return;
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    dirty = dirty || !same(stored ?? { verdict: null, tags: [], note: "" }, value());
    const done = await save();
    for (const button of form.querySelectorAll("button")) button.disabled = false;
    if (done && next) {
      if (form.dataset.next) location.assign(form.dataset.next);
      else tell("Saved – the last one of this filter", "saved");
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button || link.target) return;
    const same = link.pathname === location.pathname && link.search === location.search && link.hash;
    if (same || (!dirty && !running)) return;
    event.preventDefault();
    leave(link.href);
  });
  window.addEventListener("beforeunload", (event) => { if (dirty || running) event.preventDefault(); });
  const button = document.getElementById("undo");
  button?.addEventListener("click", undo);
  if (button) button.hidden = !JSON.parse(sessionStorage.getItem(UNDO) ?? "[]").length;
  if (sessionStorage.getItem(`${UNDO}.now`)) { sessionStorage.removeItem(`${UNDO}.now`); undo(); }
}
