// The token strip: one tab stop, arrow keys, inspector, linked segments, marked ranges, exact copying.
// Tokens carry their index in the id and their token id in data-i; listeners are delegated.

const inspector = document.querySelector("#inspector .what");
let pinned = null;

export function tokenOf(node) {
  const element = node instanceof Element ? node : node?.parentElement;
  return element?.closest("i[data-i]") ?? element?.closest(".g")?.querySelector("i[data-i]") ?? null;
}

export function indexOf(token) { return Number(token.id.slice(1)); }

// What a token says, with the one character that HTML cannot hold put back.
export function textOf(node) {
  if (!node.querySelector?.('[data-u="U+0000"]')) return node.textContent;
  const copy = node.cloneNode(true);
  for (const nul of copy.querySelectorAll('[data-u="U+0000"]')) nul.textContent = "\0";
  return copy.textContent;
}

function kindOf(token) {
  if (token.classList.contains("x")) return token.classList.contains("a") ? "added" : "special";
  if (token.classList.contains("y")) return token.dataset.g ? `bytes ${token.dataset.g} of one character` : "bytes";
  return token.classList.contains("q") ? "unknown" : "text";
}

function bytesOf(token) {
  if (token.dataset.b !== undefined) return token.dataset.b;
  return [...new TextEncoder().encode(textOf(token))].map((byte) => byte.toString(16).padStart(2, "0").toUpperCase()).join(" ");
}

function say(name, value, tag = "b") {
  const part = document.createElement(tag);
  part.textContent = value;
  return [`${name} `, part, " · "];
}

export function inspect(token) {
  if (!token || !inspector) return;
  const chunk = token.closest(".ch");
  const strip = token.closest(".strip");
  const shown = JSON.stringify(token.closest(".g") && !textOf(token) ? textOf(token.closest(".g")) : textOf(token)).slice(1, -1).slice(0, 120);
  const kind = chunk?.classList[1] ?? "";
  inspector.replaceChildren(
    ...say(strip?.dataset.mask === "0" ? "prompt token" : "token", indexOf(token).toLocaleString()), ...say("id", token.dataset.i), ...say("", shown, "code"), ...say("", kindOf(token), "span"),
    ...say("bytes", bytesOf(token), "code"), ...say("segment", `${Number(chunk?.dataset.s) + 1}, ${kind.replace("_", " ")}`), "loss mask ", Object.assign(document.createElement("b"), { textContent: strip?.dataset.mask ?? "–" }),
  );
}

export function current() { return pinned; }

export function go(token, { scroll = true } = {}) {
  if (!token) return;
  pinned?.classList.remove("on");
  pinned = token;
  token.classList.add("on");
  if (scroll) token.scrollIntoView({ block: "nearest" });
  inspect(token);
  near(token.closest(".ch")?.dataset.s, token.closest(".strip")?.id === "strip");
}

function near(number, output) {
  for (const seg of document.querySelectorAll(".seg.near")) seg.classList.remove("near");
  if (output && number !== undefined) document.getElementById(`seg-${number}`)?.classList.add("near");
}

function heat(strip, number) {
  for (const chunk of strip.querySelectorAll(".ch.hot")) chunk.classList.remove("hot");
  if (number === undefined) { delete strip.dataset.hot; return; }
  strip.dataset.hot = number;
  for (const chunk of strip.querySelectorAll(`.ch[data-s="${number}"]`)) chunk.classList.add("hot");
}

export function mark(start, end) {
  for (const token of document.querySelectorAll("#strip .m")) token.classList.remove("m");
  for (let index = start; index < end; index += 1) document.getElementById(`t${index}`)?.classList.add("m");
  go(document.getElementById(`t${start}`));
}

export function selectedRange() {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  const first = tokenOf(range.startContainer), last = tokenOf(range.endContainer);
  if (!first || !last || !first.id.startsWith("t") || !last.id.startsWith("t")) return null;
  return [indexOf(first), indexOf(last) + 1];
}

function step(strip, by) {
  const tokens = strip.id === "strip" ? "t" : "p";
  const from = pinned && strip.contains(pinned) ? indexOf(pinned) + by : 0;
  go(document.getElementById(`${tokens}${from}`));
}

function lineStep(strip, by) {
  if (!pinned) { step(strip, by); return; }
  const here = pinned.getClientRects()[0];
  let token = pinned;
  for (let tries = 0; tries < 400 && token; tries += 1) {
    token = document.getElementById(`${pinned.id[0]}${indexOf(token) + by}`);
    const box = token?.getClientRects()[0];
    if (box && Math.abs(box.top - here.top) > 4 && (by > 0 ? box.right >= here.left : box.left <= here.right)) break;
  }
  go(token ?? pinned);
}

export function segmentStep(by) {
  const strip = document.getElementById("strip");
  const chunks = [...(strip?.querySelectorAll(".ch") ?? [])];
  if (!chunks.length) return;
  const here = pinned && strip.contains(pinned) ? Number(pinned.closest(".ch").dataset.s) : -1;
  const numbers = [...new Set(chunks.map((chunk) => Number(chunk.dataset.s)))];
  const at = numbers.indexOf(here);
  const wanted = numbers[Math.min(Math.max(at + by, 0), numbers.length - 1)];
  go(strip.querySelector(`.ch[data-s="${wanted}"] i[data-i]`));
  document.getElementById(`seg-${wanted}`)?.scrollIntoView({ block: "nearest" });
}

export function start() {
  for (const strip of document.querySelectorAll(".strip")) {
    strip.addEventListener("pointerover", (event) => inspect(tokenOf(event.target)));
    strip.addEventListener("pointerleave", () => inspect(pinned));
    strip.addEventListener("click", (event) => { if (document.getSelection()?.isCollapsed ?? true) go(tokenOf(event.target), { scroll: false }); });
    strip.addEventListener("focus", () => { if (!pinned || !strip.contains(pinned)) go(strip.querySelector("i[data-i]"), { scroll: false }); });
    strip.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: () => step(strip, 1), ArrowLeft: () => step(strip, -1), ArrowDown: () => lineStep(strip, 1), ArrowUp: () => lineStep(strip, -1) };
      if (event.target !== strip || event.ctrlKey || event.metaKey || event.altKey || !(event.key in moves)) return;
      event.preventDefault();
      moves[event.key]();
    });
  }
  const output = document.getElementById("strip");
  if (output) {
    for (const linked of document.querySelectorAll("[data-seg]")) {
      linked.addEventListener("pointerenter", () => heat(output, linked.dataset.seg));
      linked.addEventListener("pointerleave", () => heat(output, undefined));
    }
    document.addEventListener("click", (event) => {
      const link = event.target instanceof Element ? event.target.closest("a[data-range]") : null;
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      const [from, to] = link.dataset.range.split("-").map(Number);
      if (!document.getElementById(`t${from}`)) return;
      event.preventDefault();
      mark(from, to);
      history.replaceState(null, "", link.href);
    });
  }
  // Copying from a strip gives the text that was generated, character by character: chunks are blocks, and blocks would add line ends.
  document.addEventListener("copy", (event) => {
    const selection = document.getSelection();
    const source = selection?.anchorNode instanceof Element ? selection.anchorNode : selection?.anchorNode?.parentElement;
    if (!selection || selection.isCollapsed || !source?.closest(".strip")) return;
    const holder = document.createElement("div");
    for (let index = 0; index < selection.rangeCount; index += 1) holder.append(selection.getRangeAt(index).cloneContents());
    event.clipboardData.setData("text/plain", textOf(holder));
    event.preventDefault();
  });
  const target = location.hash.match(/^#t(\d+)$/) && document.getElementById(location.hash.slice(1));
  if (target) go(target);
}
