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

  Promise.all([...document.querySelectorAll(".chart")].map(draw)).then(() => {
    document.documentElement.dataset.ready = "yes";
  });
})();
