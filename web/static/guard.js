// Whether a key press is meant for the page: not while somebody types, composes, holds a modifier, or looks at a dialog.

const TYPED = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable]:not([contenteditable=false]), [role=textbox], [role=combobox], [role=listbox], [role=option]";

export function typing(event) {
  return event.target instanceof Element && event.target.closest(TYPED) !== null;
}

export function meant(event) {
  if (event.defaultPrevented || event.isComposing || event.keyCode === 229) return false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.getModifierState?.("AltGraph")) return false;
  if (typing(event)) return false;
  return document.querySelector("dialog[open]") === null;
}
