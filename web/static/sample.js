// The sample page: every key belongs to a control that can be seen and clicked (data-key), so keys and mouse do the same.
import { meant, typing } from "./guard.js";
import * as review from "./review.js";
import * as strip from "./strip.js";

let leaving = false;
const byKey = new Map();
for (const control of document.querySelectorAll("[data-key]")) {
  byKey.set(control.dataset.key, control);
  if (!["A", "INPUT", "TEXTAREA"].includes(control.tagName)) control.hidden = false;
}

function press(control, event) {
  if (control instanceof HTMLInputElement) {
    if (control.type === "radio") { control.checked = true; } else { control.checked = !control.checked; }
    control.dispatchEvent(new Event("change", { bubbles: true }));
  } else if (control instanceof HTMLTextAreaElement) {
    control.focus();
    control.scrollIntoView({ block: "nearest" });
  } else if (control instanceof HTMLAnchorElement) {
    if (leaving || event.repeat) return;
    leaving = true;
    review.leave(control.href).finally(() => { leaving = false; });
  } else {
    control.click();
  }
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key === "Enter" && !event.isComposing && !document.querySelector("dialog[open]")) {
    if (event.repeat || leaving || (typing(event) && !event.target.closest("#review"))) return;
    event.preventDefault();
    byKey.get("Ctrl+Enter")?.click();
    return;
  }
  if (event.key === "Escape" && typing(event)) { event.target.blur(); return; }
  if (!meant(event)) return;
  const digit = /^(Digit|Numpad)(\d)$/.exec(event.code);
  const key = digit && !event.shiftKey ? digit[2] : event.key;
  const control = byKey.get(key);
  if (!control) return;
  const steps = key === "[" || key === "]";
  if (event.repeat && !steps) return;
  event.preventDefault();
  press(control, event);
});

for (const button of document.querySelectorAll("[data-toggles]")) {
  const name = `draftmill.${button.dataset.toggles}`;
  const inverse = "inverse" in button.dataset;
  const apply = (on) => {
    for (const part of document.querySelectorAll(".rawpane .strip")) part.classList.toggle(button.dataset.toggles, on);
    button.setAttribute("aria-pressed", String(on !== inverse));
  };
  let on = localStorage.getItem(name) === "1";
  apply(on);
  button.addEventListener("click", () => { on = !on; localStorage.setItem(name, on ? "1" : "0"); apply(on); });
}

for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => strip.segmentStep(Number(button.dataset.step)));

document.getElementById("link")?.addEventListener("click", async (event) => {
  const range = strip.selectedRange() ?? (strip.current()?.id.startsWith("t") ? [strip.indexOf(strip.current()), strip.indexOf(strip.current()) + 1] : null);
  const url = new URL(location.href);
  if (range) { url.searchParams.set("t", `${range[0]}-${range[1]}`); url.hash = `t${range[0]}`; }
  await navigator.clipboard.writeText(url.href);
  const button = event.currentTarget ?? document.getElementById("link");
  const before = [...button.childNodes];
  button.replaceChildren("copied");
  setTimeout(() => button.replaceChildren(...before), 1200);
});

const dialog = document.getElementById("keys");
const listing = dialog?.querySelector(".keys");
document.querySelector("[data-opens=keys]")?.addEventListener("click", () => {
  if (!listing.childElementCount) {
    for (const [key, control] of byKey) {
      const row = document.createElement("div");
      row.append(Object.assign(document.createElement("dt"), { textContent: control.dataset.help }));
      const shown = document.createElement("dd");
      shown.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      row.append(shown);
      listing.append(row);
    }
  }
  dialog.showModal();
});

// A range chosen in the strip goes into the comment's fields.
document.addEventListener("selectionchange", () => {
  const range = strip.selectedRange();
  const start = document.getElementById("c-start"), end = document.getElementById("c-end");
  if (range && start && end) { start.value = range[0]; end.value = range[1]; }
});

strip.start();
review.start();
