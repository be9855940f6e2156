"use strict";
// Draws each figure when it comes near the window. Before the page is printed all are drawn, and all that is folded opens.
(function () {
  const element = document.getElementById("figures");
  const { figures, texts } = JSON.parse(element.textContent);
  const plots = Array.from(document.querySelectorAll(".plot"));
  // The mode bar has room above the plot, and is shown on hover; it saves a figure as SVG.
  const settings = {
    responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: { format: "svg" },
  };

  // Plotly takes a second to start: the page can be read and scrolled before.
  function startPlotly() {
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }

  function draw(plot) {
    if (plot.dataset.drawn) return;
    if (!window.Plotly) startPlotly();
    plot.dataset.drawn = "yes";
    const figure = figures[Number(plot.dataset.figure)];
    figure.data.forEach((trace) => {
      if (Array.isArray(trace.text) && typeof trace.text[0] === "number") trace.text = trace.text.map((at) => texts[at]);
    });
    Plotly.newPlot(plot, figure.data, figure.layout, settings);
  }

  const observer = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
    { rootMargin: "600px" },
  );
  plots.forEach((plot) => observer.observe(plot));

  // A press on an entry of a legend hides or shows its marks in all panels of the chart.
  document.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => {
      const isShown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isShown));
      button.closest("figure").querySelectorAll(".plot").forEach((plot) => {
        const traces = figures[Number(plot.dataset.figure)].data;
        const numbers = Array.from(traces.keys()).filter((number) => traces[number].meta === button.dataset.name);
        numbers.forEach((number) => { traces[number].visible = isShown; });
        if (plot.dataset.drawn && numbers.length) Plotly.restyle(plot, { visible: isShown }, numbers);
      });
    });
  });

  let opened = [];

  window.addEventListener("beforeprint", () => {
    opened = opened.concat(Array.from(document.querySelectorAll("details:not([open])")));
    opened.forEach((details) => { details.open = true; });
    plots.forEach((plot) => {
      draw(plot);
      const isSingle = plot.closest(".panels").classList.contains("of-1");
      Plotly.relayout(plot, { width: isSingle ? 640 : 320, autosize: false });
    });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((details) => { details.open = false; });
    opened = [];
    plots.forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true }));
  });
})();
