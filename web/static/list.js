// Keys on the sample list: j and k move, Enter opens (a focused link does that by itself).
import { meant } from "./guard.js";

document.addEventListener("keydown", (event) => {
  if (!meant(event) || (event.key !== "j" && event.key !== "k")) return;
  const links = [...document.querySelectorAll("a[data-row]")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? 0 : Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), links.length - 1);
  links[next].focus();
  event.preventDefault();
});
