// A server's log: goes on from where the page was drawn, folds equal lines, keeps a bounded number of them, and scrolls only for
// who wants it. What a search leaves out of the page is left out of what follows, too. Without script the form does the rest.

const KEPT = 2000;
const RANK = { info: 0, warning: 1, error: 2 };
const box = document.getElementById("log-lines");

if (box) {
  const tools = document.querySelector("[data-log-tools]");
  const follow = tools.querySelector("[data-follow]"), wrap = tools.querySelector("[data-wrap]"), checks = tools.querySelector("[data-checks]");
  const told = tools.querySelector("[data-log-state]"), none = document.getElementById("log-none");
  const q = box.dataset.q.toLowerCase(), level = RANK[box.dataset.level] ?? 0;
  tools.hidden = false;
  follow.closest("label").hidden = !box.dataset.stream;
  wrap.addEventListener("change", () => { box.classList.toggle("nowrap", !wrap.checked); });
  checks.addEventListener("change", () => { box.classList.toggle("nochecks", !checks.checked); if (follow.checked) toEnd(); });

  let moved = false; // by us
  const toEnd = () => { moved = true; box.scrollTop = box.scrollHeight; };
  toEnd();
  box.addEventListener("scroll", () => {
    if (moved) { moved = false; return; }
    if (box.dataset.stream) follow.checked = box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
  }, { passive: true });
  follow.addEventListener("change", () => { if (follow.checked) toEnd(); });
  if (box.dataset.stream) stream();

  function span(name, text) {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  }

  function row(line) {
    const made = span(`ln ${line.level}${line.note ? " noted" : ""}${line.note === "left out" ? " cut" : ""}`, "");
    made.append(span("t", line.text));
    if (line.note) made.append(span("note", ` ${line.note}`));
    made.append("\n");
    count(made, line.count, line.at, line.until);
    return made;
  }

  function count(made, times, at, until) {
    made.dataset.count = times;
    if (at && !made.dataset.at) made.dataset.at = at.slice(11);
    made.querySelector(".times")?.remove();
    if (times < 2 || !made.querySelector(".t").textContent) return;
    const span_ = made.dataset.at && until ? `, ${made.dataset.at} to ${until.slice(11)}` : "";
    made.insertBefore(span("times", ` × ${times.toLocaleString("en")}${span_}`), made.lastChild);
  }

  function key(text) { return /^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.test(text) ? text.slice(20) : text; }

  function add(rows) {
    box.querySelector(".unfinished")?.remove();
    const fresh = document.createDocumentFragment();
    let last = box.lastElementChild;
    for (const line of rows) {
      const before = last && !last.classList.contains("event") ? last.querySelector(".t") : null;
      if (before && line.note !== "left out" && line.text?.length < 4000 && key(before.textContent) === key(line.text)) {
        count(last, Number(last.dataset.count) + line.count, before.textContent.slice(1, 20), line.until);
      } else {
        last = line.event ? span("ln event", `${line.event}\n`) : row(line);
        fresh.append(last);
      }
    }
    box.append(fresh);
    while (box.childElementCount > KEPT) box.firstElementChild.remove();
    none.hidden = box.childElementCount > 0;
    if (follow.checked) toEnd();
  }

  function stream() {
    let source = null, where = new URL(box.dataset.stream, location.href);
    const open = () => {
      source = new EventSource(where);
      const hear = (name, act) => source.addEventListener(name, (event) => {
        if (event.lastEventId) where.searchParams.set("from", event.lastEventId);
        act(JSON.parse(event.data));
      });
      hear("lines", (lines) => add(lines.slice(-KEPT).filter((line) => RANK[line.level] >= level && line.text.toLowerCase().includes(q))));
      hear("skipped", ({ bytes }) => add([{ event: `… ${bytes.toLocaleString("en")} bytes came faster than they could be shown …` }]));
      hear("restart", () => add([{ event: "── another start ──" }]));
      hear("unfinished", (text) => {
        box.querySelector(".unfinished")?.remove();
        if (text && !level && text.toLowerCase().includes(q)) { box.append(span("ln unfinished", `${text}\n`)); none.hidden = true; }
        if (follow.checked) toEnd();
      });
      source.addEventListener("open", () => { told.textContent = ""; });
      source.addEventListener("error", () => { told.textContent = source.readyState === EventSource.CLOSED ? "not connected: reload the page" : "not connected: trying again"; });
    };
    open();
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  }
}
