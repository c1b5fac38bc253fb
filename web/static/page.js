// What every page shares: local times, theme, copy, confirmation, busy forms, live parts. Nothing here is needed to read or decide.
import { live } from "./live.js";

const root = document.documentElement;

export function localTimes(within = document) {
  for (const time of within.querySelectorAll("time[datetime]:not([data-ago])")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = at.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
    time.title = at.toISOString();
  }
}

function theme() {
  const order = ["", "light", "dark"];
  const words = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  for (const button of document.querySelectorAll("[data-theme]")) {
    const now = () => order.find((name) => name && root.classList.contains(name)) ?? "";
    const tell = () => { button.textContent = { "": "◐", light: "○", dark: "●" }[now()]; button.setAttribute("aria-label", words[now()]); button.title = words[now()]; };
    button.hidden = false;
    tell();
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(now()) + 1) % order.length];
      root.classList.remove("light", "dark");
      if (next) root.classList.add(next);
      document.cookie = `theme=${next}; path=/; max-age=${next ? 31536000 : 0}; samesite=lax`;
      tell();
    });
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !(form instanceof HTMLFormElement)) return;
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) { event.preventDefault(); return; }
  if (form.method !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; } // a second click sends nothing
  form.dataset.sent = "1";
  const button = event.submitter;
  if (button && form.dataset.busy) button.textContent = form.dataset.busy;
});
window.addEventListener("pageshow", () => { for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent; });

function offerCopies(within = document) {
  for (const button of within.querySelectorAll("[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});

function drawn(part) {
  localTimes(part);
  offerCopies(part);
}

theme();
drawn(document);
live(drawn);
