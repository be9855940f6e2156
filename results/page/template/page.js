"use strict";
// Draws each figure when it comes near the window. Before the page is printed all are drawn, and all that is folded opens.
(function () {
  const element = document.getElementById("figures");
  const figures = JSON.parse(element.textContent);
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
    Plotly.newPlot(plot, figure.data, figure.layout, settings);
  }

  const observer = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
    { rootMargin: "600px" },
  );
  plots.forEach((plot) => observer.observe(plot));

  let opened = [];

  window.addEventListener("beforeprint", () => {
    opened = opened.concat(Array.from(document.querySelectorAll("details:not([open])")));
    opened.forEach((details) => { details.open = true; });
    plots.forEach((plot) => {
      draw(plot);
      // At the width for which gaps are chosen: the browser fits the page to the paper.
      Plotly.relayout(plot, { width: parseFloat(plot.style.minWidth), autosize: false });
    });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((details) => { details.open = false; });
    opened = [];
    plots.forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true }));
  });
})();
