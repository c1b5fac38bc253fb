// The log tail of a backend: follows the server's stream, keeps a bounded number of lines, and scrolls only for who wants it.

const KEPT = 2000;
const box = document.getElementById("log");

if (box?.dataset.stream) {
  const follow = document.querySelector("[data-follow]");
  document.querySelector("[data-follow-box]").hidden = false;
  box.scrollTop = box.scrollHeight;
  let first = true;
  const source = new EventSource(box.dataset.stream);
  source.addEventListener("log", (event) => {
    let text = event.data;
    try { text = JSON.parse(event.data); } catch { /* plain text */ }
    if (typeof text !== "string") return;
    const before = first ? "" : box.textContent; // the stream begins with the tail that the page already shows
    first = false;
    const lines = (before + text).split("\n");
    box.textContent = lines.slice(-KEPT).join("\n");
    if (follow.checked) box.scrollTop = box.scrollHeight;
  });
  source.addEventListener("restart", () => { first = false; box.textContent += "\n── another start ──\n"; });
  box.addEventListener("wheel", () => { follow.checked = box.scrollTop + box.clientHeight >= box.scrollHeight - 24; }, { passive: true });
  window.addEventListener("pagehide", () => source.close());
}
