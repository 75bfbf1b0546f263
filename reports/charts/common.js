"use strict";
// What the charts of all pages share. All text of the evidence becomes text nodes, never HTML.
const charts = (() => {
  const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#b2a300", "#7f7f7f"];
  const FAULT_ROW = 18;
  const drawn = new Map(); // element -> redraw, for a change of theme or width

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (value) =>
    value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
  const seconds = (value) => `${Number(value.toFixed(3))} s`;

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // The text of an element that holds base64 of gzipped text.
  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const decoded = async (id) => JSON.parse(await unpacked(id));

  // Lines of a tooltip as text nodes: ECharts puts a string into innerHTML.
  function lines(texts) {
    const box = element("div");
    texts.forEach((text, i) => box.append(element("div", text, i ? {} : { style: "font-weight:600" })));
    return box;
  }

  const clock = (data, at) => new Date(data.start_ms + at * 1000).toISOString().slice(11, 23);
  const lengthOf = (data) => data.width_s * data.buckets;

  function endOf(data, fault) {
    const last = fault.healed_s ?? fault.ended_s;
    return last === null || last === undefined ? lengthOf(data) : Math.max(last, fault.started_s + data.width_s / 4);
  }

  // A band from value(1) to value(2) on row value(0), with a label where it fits.
  function band(rowHeight, colour, label) {
    return (params, api) => {
      const from = api.coord([api.value(1), api.value(0)]);
      const to = api.coord([api.value(2), api.value(0)]);
      const area = params.coordSys;
      const x = Math.max(from[0], area.x);
      const width = Math.min(to[0], area.x + area.width) - x;
      if (width < 0) return null;
      const text = label(params.dataIndex);
      const children = [
        {
          type: "rect",
          shape: { x, y: from[1] - rowHeight / 2 + 1, width: Math.max(width, 1.5), height: rowHeight - 2 },
          style: { fill: colour(params.dataIndex) },
        },
      ];
      if (width > text.length * 6 + 6) {
        children.push({
          type: "text",
          style: {
            x: x + 4,
            y: from[1],
            text,
            fill: "#fff",
            stroke: "rgba(0,0,0,.55)",
            lineWidth: 2,
            fontSize: 10.5,
            verticalAlign: "middle",
          },
        });
      }
      return { type: "group", children };
    };
  }

  function faultAreas(data) {
    return {
      silent: true,
      itemStyle: { color: "rgba(200,60,60,.09)" },
      data: data.faults.map((f) => [{ xAxis: f.started_s }, { xAxis: endOf(data, f) }]),
    };
  }

  function line(name, index, points, colour, more = {}) {
    return {
      name,
      type: "line",
      xAxisIndex: index,
      yAxisIndex: index,
      data: points,
      animation: false,
      showSymbol: points.length < 2000,
      showAllSymbol: true,
      symbol: "circle",
      symbolSize: 2, // a point between two gaps has no line
      lineStyle: { width: 1.5, color: colour, ...(more.lineStyle || {}) },
      itemStyle: { color: colour },
      emphasis: { disabled: true },
      ...more.rest,
    };
  }

  function faultSeries(option, index, data) {
    option.series.push({
      type: "custom",
      name: "faults",
      xAxisIndex: index,
      yAxisIndex: index,
      animation: false,
      clip: true,
      encode: { x: [1, 2], y: 0 },
      data: data.faults.map((f, i) => [i, f.started_s, endOf(data, f)]),
      renderItem: band(
        FAULT_ROW,
        (i) => (data.faults[i].effect === false ? "#8a8a8a" : "#c03a3a"),
        (i) => data.faults[i].do,
      ),
      tooltip: {
        formatter: (p) => {
          const f = data.faults[p.dataIndex];
          const told =
            f.effect === null ? "effect: not known" : f.effect ? `effect: ${f.because}` : `no effect: ${f.because}`;
          return lines([
            `${f.name} (${f.do})`,
            `began at ${seconds(f.started_s)}, ${clock(data, f.started_s)} UTC`,
            f.ended_s === null ? "did not end" : `injected by ${seconds(f.ended_s)}`,
            f.healed_s === null ? "not healed, or there was nothing to heal" : `healed at ${seconds(f.healed_s)}`,
            told.slice(0, 300),
          ]);
        },
      },
    });
  }

  function failed(place, what, error) {
    place.replaceChildren(
      element("p", `The ${what} cannot be drawn: ${error.message || error}`, { class: "missing" }),
    );
  }

  // Draws each of the elements when it comes near the screen. what: the word for it in a message.
  function whenSeen(selector, what, draw) {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries.filter((e) => e.isIntersecting)) {
          seen.unobserve(entry.target);
          draw(entry.target).catch((error) => failed(entry.target, what, error));
        }
      },
      { rootMargin: "300px" },
    );
    document.querySelectorAll(selector).forEach((place) => seen.observe(place));
  }

  let pending = 0;
  const again = () => {
    clearTimeout(pending);
    pending = setTimeout(() => drawn.forEach((redraw) => redraw()), 150);
  };
  addEventListener("resize", again);
  addEventListener("beforeprint", () => drawn.forEach((redraw) => redraw()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

  return {
    ...{ FAULT_ROW, PALETTE, band, clock, decoded, drawn, element, endOf, failed, faultAreas, faultSeries },
    ...{ lengthOf, line, lines, number, seconds, style, unpacked, whenSeen },
  };
})();
