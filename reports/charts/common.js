"use strict";
// What the charts of all pages share. All text of the evidence becomes text nodes, never HTML.
const charts = (() => {
  const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#b2a300", "#7f7f7f"];
  const FAULT_ROW = 18;
  const INJECTED = "#6d0f18";
  const RECOVERY = "#2f9e5f";
  const drawn = new Map(); // element -> redraw, for a change of theme or width

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (value) =>
    value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
  const seconds = (value, digits = 3) => `${Number(value.toFixed(digits))} s`;

  // A short time, such as "20 ms".
  function lasting(value) {
    const [unit, one] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]].find(([, least]) => value >= least * 0.999) ?? ["ns", 1e-9];
    return `${number(value / one)} ${unit}`;
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // The text whose gzip is given as base64.
  async function inflated(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const unpacked = (id) => inflated(document.getElementById(id).textContent);
  const decoded = async (id) => JSON.parse(await unpacked(id));

  const FILES_KEPT = 40; // files of details that stay in memory
  const files = new Map(); // "folder/name" -> promise of its content, the latest use last
  const awaited = new Map(); // "stamp/name" -> what takes the text of the file

  // A file of details calls this.
  function arrived(stamp, name, packed) {
    awaited.get(`${stamp}/${name}`)?.(packed);
  }

  function loaded(address, key) {
    return new Promise((resolve, reject) => {
      const made = element("script", "", { src: address });
      const done = (settle, value) => {
        awaited.delete(key);
        made.remove();
        settle(value);
      };
      awaited.set(key, (packed) => done(resolve, packed));
      made.addEventListener("error", () => done(reject, new Error(`${address} is not beside this page`)));
      made.addEventListener("load", () => {
        if (awaited.has(key)) done(reject, new Error(`${address} belongs to another page; write the page again`));
      });
      document.head.append(made);
    });
  }

  // The content of a file beside the page. It is a script, since a page that is opened from disk can load nothing else.
  function beside(details, name, made = (content) => content) {
    const address = `${details.folder}/${name}.js`;
    const content =
      files.get(address) ??
      loaded(address, `${details.stamp}/${name}`)
        .then(inflated)
        .then((text) => made(JSON.parse(text)));
    files.delete(address);
    files.set(address, content);
    if (files.size > FILES_KEPT) files.delete(files.keys().next().value);
    content.catch(() => files.delete(address));
    return content;
  }

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

  // A band from value(1) to value(2) on row value(0), with a label where it fits. parts: makes what lies on the band,
  // under the label; where there is room, the label is right of `covered`, at which the first part ends.
  function band(rowHeight, colour, label, parts = () => ({ made: [], covered: 0 })) {
    return (params, api) => {
      const from = api.coord([api.value(1), api.value(0)]);
      const to = api.coord([api.value(2), api.value(0)]);
      const area = params.coordSys;
      const x = Math.max(from[0], area.x);
      const width = Math.min(to[0], area.x + area.width) - x;
      const { made, covered } = parts(params, api);
      if (width < 0) return made.length ? { type: "group", children: made } : null;
      const text = label(params.dataIndex);
      const children = [
        {
          type: "rect",
          shape: { x, y: from[1] - rowHeight / 2 + 1, width: Math.max(width, 1.5), height: rowHeight - 2 },
          style: { fill: colour(params.dataIndex) },
        },
      ];
      children.push(...made);
      const wide = text.length * 6 + 6;
      if (width > wide) {
        const begin = x + width - covered > wide ? Math.max(x, covered) + 4 : x + 4;
        children.push({
          type: "text",
          style: {
            x: begin,
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

  // The injection, the first change of a leader or an ISR, and the recovery of a fault.
  function faultParts(fault, params, api) {
    const area = params.coordSys;
    const at = (value) => api.coord([value, params.dataIndex]);
    const inside = (x) => Math.min(Math.max(x, area.x), area.x + area.width);
    const part = (from, to, height, fill) => {
      const [x, end, y] = [inside(at(from)[0]), inside(at(to)[0]), at(from)[1]];
      const shape = { x, y: y - height / 2, width: end - x, height };
      return end > x ? [{ type: "rect", shape, style: { fill } }] : [];
    };
    const made = [];
    let covered = 0; // the label of the fault is right of its injection
    if (fault.ended_s !== null) {
      made.push(...part(fault.started_s, fault.ended_s, FAULT_ROW - 6, INJECTED));
      covered = inside(at(fault.ended_s)[0]);
    }
    if (fault.recovered_s !== null) made.push(...part(fault.healed_s, fault.recovered_s, 6, RECOVERY));
    if (fault.changed_s !== null) {
      const [x, y] = at(fault.changed_s);
      const shape = { x1: x, y1: y - FAULT_ROW / 2, x2: x, y2: y + FAULT_ROW / 2 };
      if (x >= area.x && x <= area.x + area.width)
        made.push({ type: "line", shape, style: { stroke: style("--ink"), lineWidth: 1.5 } });
    }
    return { made, covered };
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
      renderItem: (params, api) => {
        const fault = data.faults[params.dataIndex];
        const colour = fault.effect === false ? "#8a8a8a" : "#c03a3a";
        return band(
          FAULT_ROW,
          () => colour,
          () => fault.do,
          () => faultParts(fault, params, api),
        )(params, api);
      },
      tooltip: {
        formatter: (p) => {
          const f = data.faults[p.dataIndex];
          const told =
            f.effect === null ? "effect: not known" : f.effect ? `effect: ${f.because}` : `no effect: ${f.because}`;
          return lines([
            `${f.name} (${f.do})`,
            `began at ${seconds(f.started_s)}, ${clock(data, f.started_s)} UTC`,
            f.ended_s === null ? "did not end" : `injected by ${seconds(f.ended_s)}`,
            f.changed_s === null ? "" : `a leader or an ISR changed at ${seconds(f.changed_s)}`,
            f.healed_s === null ? "not healed, or there was nothing to heal" : `healed at ${seconds(f.healed_s)}`,
            f.recovered_s === null ? "" : `every ISR was full at ${seconds(f.recovered_s)}`,
            told.slice(0, 300),
          ].filter(Boolean));
        },
      },
    });
  }

  const TITLE = 22; // height of a title
  const BELOW = 22; // room for the labels of an axis
  const LEGEND_LINE = 19;
  const PAPER = "700px"; // width of the text on a sheet of A4
  const MARK = 22; // width of the mark of an entry of a legend

  // How many lines a legend needs. Widths of texts are estimates on the safe side.
  function linesOf(names, width) {
    let count = 1;
    let used = 0;
    for (const name of names) {
      const entry = MARK + 5 + name.length * 6.3 + 10;
      if (used && used + entry > width) {
        count += 1;
        used = 0;
      }
      used += entry;
    }
    return count;
  }

  // Places rows below each other, each with its `height`, `title` and the `names` of its legend. The legend is beside the
  // title where it fits there, else below it in as many lines as it needs: one that scrolls would be cut in print.
  // Returns the height of all.
  function stacked(rows, whole, ink) {
    const width = whole - 8;
    let top = 4;
    for (const row of rows) {
      const beside = row.title.length * 7.5 + 20;
      const fits = !row.names || linesOf(row.names, width - beside) === 1;
      const more = fits ? 0 : linesOf(row.names, width) * LEGEND_LINE;
      row.titleTop = top;
      row.top = top + TITLE + more;
      row.legend = row.names && {
        data: row.names,
        type: "plain",
        ...{ top: fits ? top + 6 : top + TITLE, left: fits ? beside : 0, width: fits ? width - beside : width },
        ...{ padding: 0, itemGap: 10, itemWidth: MARK, itemHeight: 8 },
        textStyle: { color: ink.ink, fontSize: 11 },
      };
      top = row.top + row.height + BELOW;
    }
    return top;
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
  // A chart as wide as a screen would make the browser print the whole page smaller.
  const fitted = (maxWidth) =>
    drawn.forEach((redraw, place) => {
      place.style.maxWidth = maxWidth;
      redraw();
    });
  addEventListener("beforeprint", () => fitted(PAPER));
  addEventListener("afterprint", () => fitted(""));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

  return {
    ...{ FAULT_ROW, PALETTE, arrived, band, beside, clock, decoded, drawn, element, endOf, failed },
    ...{ faultAreas, faultSeries, lasting, stacked },
    ...{ lengthOf, line, lines, number, seconds, style, unpacked, whenSeen },
  };
})();
