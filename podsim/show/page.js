"use strict";
(() => {
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const NARROW = 560;

  const config = () => ({
    background: null,
    font: FONT,
    padding: { left: 0, top: 4, right: 6, bottom: 4 },
    mark: { aria: false },
    view: { stroke: null },
    axis: {
      labelFontSize: 12, titleFontSize: 12.5, titleFontWeight: "normal", titleColor: "#444", labelColor: "#1a1a1a",
      gridColor: "#e6e6e6", domainColor: "#888", tickColor: "#888", titlePadding: 8, labelOverlap: true,
    },
    axisY: { labelPadding: 6, labelLimit: window.innerWidth < NARROW ? 150 : 300 },
    legend: { symbolOpacity: 1, labelFontSize: 12, titleFontSize: 12.5, titleFontWeight: "normal", orient: "top" },
    style: { cell: { stroke: null } },
  });

  const specOf = (figure) => JSON.parse(figure.querySelector(":scope > script, :scope > .spec").textContent);

  const draw = async (figure) => {
    const place = figure.querySelector(".chart");
    try {
      // `ast`: expressions are interpreted, so that the page may forbid the making of code from text.
      const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: config() };
      figure.drawn = await vegaEmbed(place, specOf(figure), options);
      figure.dataset.drawn = "yes";
    } catch (error) {
      place.innerHTML = "";
      place.append("This chart could not be drawn; the table below has its numbers.");
      place.classList.add("failed");
      console.error(error);
    }
  };

  const zoomable = (figure) => {
    const parts = [...figure.querySelectorAll("button[data-from]")];
    const view = figure.drawn.view;
    const [first, last] = [Number(parts[0].dataset.from), Number(parts[0].dataset.to)];
    const shown = () => [view.signal("shown_from"), view.signal("shown_to")];
    const show = (from, to) => {
      const length = Math.min(Math.max(to - from, (last - first) * 1e-7), last - first);
      const start = Math.min(Math.max(from, first), last - length);
      view.signal("shown_from", start).signal("shown_to", start + length).runAsync();
      for (const each of parts) {
        const same = Math.abs(each.dataset.from - start) + Math.abs(each.dataset.to - start - length) < length * 1e-6;
        each.setAttribute("aria-pressed", String(same));
      }
    };
    const step = (name, at = 0.5) => {
      const [from, to] = shown();
      const length = to - from;
      const moves = {
        in: [from + length * at / 2, to - length * (1 - at) / 2],
        out: [from - length * at, to + length * (1 - at)],
        back: [from - length / 4, to - length / 4],
        on: [from + length / 4, to + length / 4],
      };
      show(...moves[name]);
    };
    const place = figure.querySelector(".chart");
    const share = (event) => {
      const box = place.querySelector("svg").getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left - view.origin()[0]) / view.width()));
    };
    for (const each of parts) each.onclick = () => show(Number(each.dataset.from), Number(each.dataset.to));
    for (const each of figure.querySelectorAll("button[data-step]")) each.onclick = () => step(each.dataset.step);
    const keys = { ArrowLeft: "back", ArrowRight: "on", "+": "in", "=": "in", "-": "out" };
    place.onkeydown = (event) => {
      if (event.key === "0") show(first, last);
      else if (keys[event.key]) step(keys[event.key]);
      else return;
      event.preventDefault();
    };
    // A wheel alone scrolls the page.
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      step(event.deltaY < 0 ? "in" : "out", share(event));
    }, { passive: false });
    let pressed = null;
    place.onpointerdown = (event) => { pressed = event.pointerType === "mouse" ? share(event) : null; };
    place.onpointerup = (event) => {
      if (pressed === null) return;
      const [from, to] = shown();
      const ends = [pressed, share(event)].sort((one, other) => one - other).map((at) => from + at * (to - from));
      if (ends[1] - ends[0] > (to - from) / 50) show(...ends);
      pressed = null;
    };
    const opened = parts[1] ?? parts[0];
    show(Number(opened.dataset.from), Number(opened.dataset.to));
  };

  const start = async (within) => {
    for (const figure of within.querySelectorAll("figure:not([data-begun])")) {
      figure.dataset.begun = "yes";
      await draw(figure);
      if (figure.dataset.zoom && figure.drawn) zoomable(figure);
    }
    document.documentElement.dataset.ready = "yes";
  };
  window.drawFigures = start;
  start(document);
})();
