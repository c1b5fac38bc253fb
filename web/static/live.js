// Live parts: an element with data-live is drawn again by the server when data-stream (SSE) says that something changed, or every
// data-every seconds while the page is looked at. At most one EventSource a page; it is closed when the page is left.

const SLOWEST = 60;

export function live(drawn) {
  for (const part of document.querySelectorAll("[data-live]")) watch(part, drawn);
}

function watch(part, drawn) {
  let busy = false, again = false, failures = 0, timer = 0, html = part.innerHTML;
  const every = Number(part.dataset.every) || 5;

  async function draw() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      failures = 0;
      if (text !== html && !chosen(part)) { html = text; replace(part, text); drawn(part); }
    } catch {
      failures += 1;
    }
    busy = false;
    if (again) { again = false; later(1); } else plan();
  }

  function later(seconds) { clearTimeout(timer); timer = setTimeout(() => (document.hidden ? plan() : draw()), seconds * 1000); }
  function plan() { later(Math.min(every * 2 ** failures, Math.max(SLOWEST, every))); }

  plan();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) draw(); });
  if (part.dataset.stream) {
    let last = 0;
    const tick = () => { const wait = Math.max(0, 1 - (Date.now() - last) / 1000); last = Date.now(); wait ? later(wait) : draw(); };
    let source = new EventSource(part.dataset.stream);
    source.addEventListener("run", tick);
    window.addEventListener("pagehide", () => { source.close(); clearTimeout(timer); });
    window.addEventListener("pageshow", (event) => { if (event.persisted) { source = new EventSource(part.dataset.stream); source.addEventListener("run", tick); draw(); } });
  } else {
    window.addEventListener("pagehide", () => clearTimeout(timer));
  }
}

// Whether the reader has marked text in it, to copy: it stays as it is until they are done.
function chosen(part) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
}

// Put new content in without taking the focus away from what has the same address or form in it, nor folding what was unfolded.
function replace(part, html) {
  const active = part.contains(document.activeElement) ? document.activeElement : null;
  const mark = active && (active.getAttribute("href") ?? active.closest("form")?.getAttribute("action"));
  const fresh = new DOMParser().parseFromString(html, "text/html").body;
  const unfolded = [...part.querySelectorAll("details")].map((fold) => fold.open);
  const folds = fresh.querySelectorAll("details");
  if (folds.length === unfolded.length) folds.forEach((fold, at) => { fold.open = unfolded[at]; });
  part.replaceChildren(...fresh.childNodes);
  if (!mark) return;
  for (const item of part.querySelectorAll("a[href], button")) {
    if ((item.getAttribute("href") ?? item.closest("form")?.getAttribute("action")) === mark) { item.focus({ preventScroll: true }); return; }
  }
}
