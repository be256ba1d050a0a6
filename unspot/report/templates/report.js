"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const drawn = new Map();
  const listens = (place, signal) => (specs[place.dataset.chart].params || []).some((p) => p.name === signal);

  async function draw(place) {
    const options = { renderer: "svg", ast: true, actions: false, tooltip: { offsetX: 14, offsetY: 14 } };
    try {
      const result = await vegaEmbed(place, specs[place.dataset.chart], options);
      drawn.set(place, result.view);
      place.dataset.drawn = "yes";
    } catch (error) {
      place.textContent = "This chart could not be drawn: " + error.message;
      place.dataset.drawn = "no";
      console.error(error);
    }
  }

  function hideClasses(section) {
    const off = [...section.querySelectorAll('.legend button[aria-pressed="false"]')].map((b) => Number(b.dataset.slot));
    for (const place of section.querySelectorAll(".chart")) {
      const view = drawn.get(place);
      if (view && listens(place, "hidden")) view.signal("hidden", off).runAsync();
    }
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      hideClasses(button.closest("section"));
    });
  }

  for (const button of document.querySelectorAll(".themes button")) {
    button.addEventListener("click", () => {
      const wanted = button.dataset.theme;
      if (wanted === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = wanted;
      for (const other of document.querySelectorAll(".themes button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
    });
  }

  // The dial: one number, the stop, moves all charts that listen, the numbers and the nearest rows.
  function dialOf(section) {
    const { start, stops } = JSON.parse(document.getElementById("dial-data").textContent);
    const range = document.getElementById("dial-range");
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const marks = new Map([...section.querySelectorAll(".legend button")].map((b) => [Number(b.dataset.slot), b.querySelector("svg")]));
    let at = start, frame = 0;

    function moveCharts(stop) {
      at = stop;
      for (const [place, view] of drawn) {
        if (listens(place, "stop")) view.signal("stop", stop).run();
      }
    }

    function glide(to) {
      const from = at, began = performance.now();
      cancelAnimationFrame(frame);
      const step = (now) => {
        // A frame's time is that of its start, which may be before the key was pressed.
        const part = still.matches ? 1 : Math.min(1, Math.max(0, now - began) / 300);
        moveCharts(part < 1 ? from + (to - from) * part * (2 - part) : to);
        if (part < 1) frame = requestAnimationFrame(step);
        else section.dataset.stop = String(to);
      };
      frame = requestAnimationFrame(step);
    }

    function near([name, slot], isNew) {
      const entry = document.createElement("span"), text = document.createElement("bdi");
      entry.className = isNew ? "near new" : "near";
      text.textContent = name;
      if (marks.has(slot)) entry.append(marks.get(slot).cloneNode(true));
      entry.append(text);
      return entry;
    }

    function write(stop) {
      const texts = stops[stop], original = stops[stops.length - 1];
      document.getElementById("dial-name").textContent = texts.name;
      range.setAttribute("aria-valuetext", texts.spoken);
      for (const place of section.querySelectorAll("[data-number]")) place.textContent = texts.numbers[place.dataset.number];
      for (const place of section.querySelectorAll("[data-query]")) {
        const known = new Set(original.nearest[place.dataset.query].map(([name]) => name));
        const rows = texts.nearest[place.dataset.query].map((row) => near(row, !known.has(row[0])));
        place.replaceChildren(...rows.flatMap((row) => [row, " "]));
      }
    }

    range.addEventListener("input", () => {
      write(Number(range.value));
      glide(Number(range.value));
    });
    range.value = String(start); // browsers keep the last value of a form when a page is loaded again
    write(start);
    section.dataset.stop = String(start);
  }

  Promise.all([...document.querySelectorAll(".chart")].map(draw)).then(() => {
    const section = document.getElementById("dial");
    if (section) dialOf(section);
    document.documentElement.dataset.ready = "yes";
  });
})();
