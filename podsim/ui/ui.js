"use strict";
(() => {
  // Keys go to a part of a slider that has neither role nor name; it takes over those of the whole.
  const TOLD = ["aria-label", "aria-valuemin", "aria-valuemax", "aria-valuenow"];
  const name = (slider) => {
    const inner = slider.querySelector("[tabindex]");
    if (!inner) return;
    if (inner.getAttribute("role") !== "slider") inner.setAttribute("role", "slider");
    if (slider.getAttribute("role") !== "group") slider.setAttribute("role", "group");
    for (const each of TOLD) {
      const value = slider.getAttribute(each) ?? "";
      if (inner.getAttribute(each) !== value) inner.setAttribute(each, value);
    }
  };
  // Answers come and go: whatever figure appears is drawn.
  const look = () => {
    window.drawFigures(document);
    document.querySelectorAll(".q-slider").forEach(name);
  };
  const seen = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-valuenow"] };
  new MutationObserver(look).observe(document.documentElement, seen);
  look();
})();
