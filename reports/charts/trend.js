"use strict";
// Draws the trend: one figure over the last gates, of a whole gate or of one scenario. All text becomes text nodes.
(() => {
  const place = document.getElementById("trend-chart");
  const stored = document.getElementById("trend-data");
  if (!place || !stored) return;
  const data = JSON.parse(stored.textContent);
  const SYMBOLS = { PASS: "circle", INCONCLUSIVE: "triangle", FAIL: "rect" };
  const { drawn, element, lines, style } = charts;
  const colours = () => ({ PASS: style("--pass-ink"), INCONCLUSIVE: style("--doubt-ink"), FAIL: style("--fail") });
  const box = element("div");
  box.style.height = "18rem";
  let chart = null;

  function choice(label, names) {
    const outer = element("label");
    const select = element("select");
    names.forEach(([value, text]) => select.append(new Option(text, value)));
    select.addEventListener("change", () => redraw());
    outer.append(`${label} `, select);
    return { outer, select };
  }

  const figure = choice(
    "Figure",
    data.figures.map((one) => [one.name, one.title]),
  );
  const scenario = choice("of", [["", "all scenarios (median)"], ...data.scenarios.map((name) => [name, name])]);

  function pointsOf(name, of) {
    return data.gates.map((gate) => {
      const run = of ? gate.runs[of] : gate;
      return run && run.figures[name] !== undefined
        ? { value: run.figures[name], verdict: run.verdict, gate }
        : { value: null, verdict: "", gate };
    });
  }

  function tooltip(points, unit, index) {
    const { gate, value, verdict } = points[index];
    return lines([`${gate.when} UTC`, `Kafka ${gate.release}: ${verdict}`, `${Number(value.toPrecision(4))} ${unit}`]);
  }

  function redraw() {
    const chosen = data.figures.find((one) => one.name === figure.select.value);
    const points = pointsOf(chosen.name, scenario.select.value);
    const ink = style("--ink");
    const by = colours();
    chart = chart || echarts.init(box, null, { renderer: "svg" });
    chart.resize();
    chart.setOption(
      {
        animation: false,
        textStyle: { fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
        grid: { left: 64, right: 16, top: 28, bottom: 44 },
        tooltip: {
          trigger: "item",
          backgroundColor: style("--paper"),
          textStyle: { color: ink, fontSize: 12 },
          formatter: (item) => tooltip(points, chosen.unit, item.dataIndex),
        },
        xAxis: {
          type: "category",
          data: data.gates.map((gate) => `${gate.release}\n${gate.when.slice(5, 16)}`),
          axisLabel: { color: ink, fontSize: 11, lineHeight: 14 },
        },
        yAxis: {
          type: "value",
          name: chosen.unit,
          nameTextStyle: { color: ink },
          axisLabel: { color: ink },
          splitLine: { lineStyle: { color: style("--line") } },
        },
        series: [
          {
            type: "line",
            lineStyle: { color: style("--dim"), width: 1 },
            symbolSize: 10,
            data: points.map((point) => ({
              value: point.value,
              symbol: SYMBOLS[point.verdict] || "circle",
              itemStyle: { color: by[point.verdict] || ink },
            })),
          },
        ],
      },
      { notMerge: true },
    );
    box.setAttribute("aria-label", `${chosen.title} over the last gates; the table below has the values of whole gates`);
  }

  box.setAttribute("role", "img");
  const controls = element("div");
  controls.className = "controls";
  controls.append(figure.outer, scenario.outer);
  const legend = element("p", "Circle: PASS. Triangle: INCONCLUSIVE. Square: FAIL.", { class: "dim" });
  place.replaceChildren(controls, box, legend);
  redraw();
  drawn.set(place, redraw);
})();
