"use strict";
// Draws the pictures of an incident: its partition by time, and by offset.
(() => {
  const { FAULT_ROW, PALETTE, band, clock, decoded, drawn, element, endOf, faultSeries } = charts;
  const { failed, lengthOf, line, lines, number, seconds, stacked, style, unpacked } = charts;
  const NARROW = 600;
  const SLIDER = 62; // height of the slider below the rows
  const LEADER_ROW = 22;
  const OFFSET_ROW = 22;
  const MOMENTS = ["#2f9e5f", "#8c6bb1", "#d55e00", "#56b4e9"]; // of the lines at moments of the records
  const DASHES = ["solid", "dashed", "dotted", [10, 3, 2, 3], [2, 6], [12, 6]];

  const inks = () => ({ ink: style("--ink"), dim: style("--dim"), line: style("--line"), paper: style("--paper") });

  // The library is packed, because every page of an incident has it. The policy of the page allows its text alone.
  let loading = null;
  function library() {
    loading ??= unpacked("library").then((text) => document.head.append(script(text)));
    return loading;
  }

  function script(text) {
    const made = document.createElement("script");
    made.textContent = text;
    return made;
  }

  function coloursOf(data) {
    const epochs = new Set(data.leaders.map((s) => s.epoch));
    data.by_offset.forEach((of) => of.rows.forEach((row) => row.parts.forEach((part) => epochs.add(part.epoch))));
    data.acked.forEach((s) => epochs.add(s.epoch));
    epochs.delete(null);
    const sorted = [...epochs].sort((a, b) => a - b);
    return new Map(sorted.map((epoch, i) => [epoch, PALETTE[i % PALETTE.length]]));
  }

  const leaderText = (s) => (s.leader < 0 ? "no leader" : `leader: broker ${s.leader}`);
  const range = (low, high) => (low === high ? `offset ${low}` : `offsets ${low} to ${high}`);

  function tooltip(ink, formatter) {
    return {
      trigger: "item",
      confine: true,
      backgroundColor: ink.paper,
      borderColor: ink.line,
      textStyle: { color: ink.ink, fontSize: 12 },
      extraCssText: "max-width:26rem;white-space:normal",
      formatter,
    };
  }

  function zooms(ink, left, xAxisIndex, labelFormatter) {
    const both = { xAxisIndex, filterMode: "none" };
    return [
      {
        ...both,
        ...{ type: "slider", bottom: 12, height: 18, left, right: 14, labelFormatter, showDataShadow: false },
        ...{ textStyle: { color: ink.dim }, borderColor: ink.line },
      },
      { ...both, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, preventDefaultMouseMove: false },
    ];
  }

  // Rectangles of times and offsets.
  function stretches(name, index, data, colour, opacity) {
    return {
      type: "custom",
      name,
      xAxisIndex: index,
      yAxisIndex: index,
      animation: false,
      clip: true,
      silent: true,
      itemStyle: { color: colour(data[0]) },
      encode: { x: [0, 1], y: [2, 3] },
      data: data.map((s) => [s.from_s, s.to_s, s.low, s.high]),
      renderItem: (params, api) => {
        const from = api.coord([api.value(0), api.value(3)]);
        const to = api.coord([api.value(1), api.value(2)]);
        const area = params.coordSys;
        const shape = { x: from[0], y: from[1] - 1, width: Math.max(2, to[0] - from[0]), height: to[1] - from[1] + 2 };
        if (shape.x > area.x + area.width || shape.x + shape.width < area.x) return null;
        return { type: "rect", shape, style: { fill: colour(data[params.dataIndex]), opacity } };
      },
    };
  }

  function layout(data, narrow) {
    const rows = [];
    if (data.faults.length)
      rows.push({ name: "faults", height: data.faults.length * FAULT_ROW, title: "Faults: injection, effect, healing, recovery" });
    if (data.leaders.length)
      rows.push({ name: "leaders", height: LEADER_ROW, title: "Leader and leader epoch" });
    const known = data.positions || data.acked.length || data.found.length || data.offsets;
    rows.push(
      known
        ? { name: "offsets", height: narrow ? 260 : 340, title: `Offsets of ${data.partition}` }
        : { name: "offsets", height: 40, title: "Time of the incident" },
    );
    return { rows, left: narrow ? 62 : 116 };
  }

  function axes(option, rows, left, data, ink) {
    rows.forEach((row, i) => {
      const names = { faults: data.faults.map((f) => f.name), leaders: [data.partition] }[row.name];
      option.title.push({
        text: row.title,
        left: 0,
        top: row.titleTop,
        textStyle: { fontSize: 12, fontWeight: 600, color: ink.ink },
      });
      option.grid.push({ left, right: 14, top: row.top, height: row.height, tooltip: names ? {} : { trigger: "axis" } });
      option.xAxis.push({
        gridIndex: i,
        type: "value",
        min: Math.min(0, Math.floor(data.span ? data.span.from_s : 0)),
        max: Math.max(lengthOf(data), data.span ? data.span.to_s : 0),
        axisLabel: { color: ink.dim, formatter: (v) => seconds(v), hideOverlap: true, showMaxLabel: false },
        axisLine: { lineStyle: { color: ink.line } },
        splitLine: { lineStyle: { color: ink.line, opacity: 0.5 } },
        axisPointer: { show: true, type: "line", snap: false, label: { show: false }, lineStyle: { color: ink.dim } },
      });
      option.yAxis.push({
        gridIndex: i,
        ...(names
          ? { type: "category", data: names, inverse: true, axisTick: { show: false }, splitLine: { show: false } }
          : { type: "value", min: 0, splitNumber: 4, splitLine: { lineStyle: { color: ink.line } } }),
        axisLabel: names
          ? { color: ink.ink, fontSize: 11, interval: 0, width: left - 10, overflow: "truncate" }
          : { color: ink.dim, fontSize: 11, formatter: (v) => number(v) },
        axisLine: { lineStyle: { color: ink.line } },
      });
    });
  }

  function leaderSeries(option, index, data, colours) {
    const spans = data.leaders;
    option.series.push({
      type: "custom",
      name: "leaders",
      xAxisIndex: index,
      yAxisIndex: index,
      animation: false,
      clip: true,
      encode: { x: [1, 2], y: 0 },
      data: spans.map((s) => [0, s.from_s, s.to_s]),
      renderItem: band(
        LEADER_ROW,
        (i) => (spans[i].leader < 0 ? "#3a3f44" : colours.get(spans[i].epoch)),
        (i) => (spans[i].leader < 0 ? "none" : `epoch ${spans[i].epoch}: broker ${spans[i].leader}`),
      ),
      tooltip: { formatter: (p) => lines(leaderLines(data, spans[p.dataIndex])) },
    });
  }

  function leaderLines(data, s) {
    return [
      leaderText(s),
      `leader epoch: ${s.epoch}`,
      `ISR: ${s.isr.join(", ") || "empty"}`,
      `${seconds(s.from_s)} to ${seconds(s.to_s)}, from ${clock(data, s.from_s)} UTC`,
    ];
  }

  // Colours behind the offsets: the epochs by time, and the incident by time and by offset.
  function areas(data, colours) {
    const made = data.leaders.map((s) => [
      { xAxis: s.from_s, itemStyle: { color: colours.get(s.epoch), opacity: s.leader < 0 ? 0 : 0.1 } },
      { xAxis: s.to_s },
    ]);
    const fail = { color: style("--fail"), opacity: 0.1 };
    if (data.span) made.push([{ xAxis: data.span.from_s, itemStyle: fail }, { xAxis: data.span.to_s }]);
    if (data.offsets) made.push([{ yAxis: data.offsets[0], itemStyle: fail }, { yAxis: data.offsets[1] }]);
    return { silent: true, data: made };
  }

  function offsetSeries(option, index, data, colours, ink) {
    const step = { rest: { step: "end", connectNulls: false } };
    const of = data.positions;
    const shown = [line("", index, [], ink.dim)]; // carries the areas, also if nothing else is known
    shown[0].markArea = areas(data, colours);
    shown[0].markLine = {
      silent: true,
      symbol: "none",
      lineStyle: { color: style("--fail"), type: "solid" },
      label: { show: false },
      data: data.span ? [{ xAxis: data.span.from_s }, { xAxis: data.span.to_s }] : [],
    };
    const epochs = [...new Set(data.acked.map((s) => s.epoch))];
    for (const epoch of epochs) {
      const own = data.acked.filter((s) => s.epoch === epoch);
      const colour = () => colours.get(epoch) ?? ink.dim;
      shown.push(stretches(epoch === null ? "acknowledged" : `acknowledged in epoch ${epoch}`, index, own, colour, 0.9));
    }
    if (data.found.length) shown.push(stretches(data.kind, index, data.found, () => style("--fail"), 1));
    shown.push(...momentSeries(data, index));
    if (of) {
      Object.entries(of.ends).forEach(([broker, points], i) => {
        const dash = { lineStyle: { width: 1.5, type: DASHES[i % DASHES.length] } };
        shown.push(line(`log end of broker ${broker}`, index, points, ink.ink, { ...dash, ...step }));
      });
      const thin = (type) => ({ lineStyle: { width: 1, type }, ...step });
      shown.push(line("high watermark", index, of.high_watermark, ink.dim, thin("solid")));
      shown.push(line("log start", index, of.log_start, ink.dim, thin("dotted")));
      if (of.tiered.length) shown.push(line("tier frontier", index, of.tiered, ink.dim, thin("dashed")));
    }
    option.series.push(...shown);
    return shown.slice(1).map((s) => s.name);
  }

  // Vertical lines at the acknowledgement of the records and at the ends of their transactions, one entry of the legend
  // for each text.
  function momentSeries(data, index) {
    return [...new Set(data.moments.map((m) => m.text))].map((text, i) => {
      const colour = MOMENTS[i % MOMENTS.length];
      const made = line(text, index, [], colour, { lineStyle: { width: 2.5, type: i ? "dashed" : "solid" } });
      made.markLine = {
        silent: true,
        symbol: "none",
        lineStyle: { color: colour, width: 2.5, type: i ? "dashed" : "solid" },
        label: { show: false },
        data: data.moments.filter((m) => m.text === text).map((m) => ({ xAxis: m.from_s })),
      };
      return made;
    });
  }

  function valueAt(points, at) {
    let found = null;
    for (const [time, value] of points) {
      if (time > at) break;
      found = value;
    }
    return found;
  }

  function valuesAt(data, at) {
    const active = data.faults.filter((f) => f.started_s <= at && at <= endOf(data, f)).map((f) => f.name);
    const texts = [`${seconds(at)} · ${clock(data, at)} UTC${active.length ? ` · ${active.join(", ")}` : ""}`];
    const led = data.leaders.find((s) => s.from_s <= at && at < s.to_s);
    if (led) texts.push(`${leaderText(led)}, epoch ${led.epoch}, ISR ${led.isr.join(", ") || "empty"}`);
    if (data.positions) {
      const of = data.positions;
      const rows = [
        ...Object.entries(of.ends).map(([broker, points]) => [`log end of broker ${broker}`, points]),
        ["high watermark", of.high_watermark],
        ["log start", of.log_start],
        ["tier frontier", of.tiered],
      ];
      const known = rows.map(([name, points]) => [name, valueAt(points, at)]).filter(([, value]) => value !== null);
      texts.push(...known.map(([name, value]) => `${name}: ${value}`));
    }
    data.moments
      .filter((m) => Math.abs(m.from_s - at) <= data.width_s)
      .forEach((m) => texts.push(`${m.text} at ${seconds(m.from_s)}`));
    for (const [name, own] of [
      ["acknowledged", data.acked],
      [data.kind, data.found],
    ]) {
      const here = own.filter((s) => s.from_s <= at && at < s.to_s);
      here.forEach((s) => texts.push(`${name} here: ${number(s.count)} records, ${range(s.low, s.high)}`));
    }
    return lines(texts);
  }

  function byTime(data, width, pointer) {
    const ink = inks();
    const colours = coloursOf(data);
    const { rows, left } = layout(data, width < NARROW);
    const option = {
      animation: false,
      ...{ title: [], grid: [], xAxis: [], yAxis: [], series: [], legend: [] },
      textStyle: { fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      tooltip: tooltip(ink, (params) => (Array.isArray(params) ? valuesAt(data, pointer()) : "")),
      dataZoom: [
        ...zooms(
          ink,
          left,
          rows.map((_, i) => i),
          (v) => seconds(v),
        ),
        // Only the buttons change which offsets are shown.
        {
          ...{ type: "inside", yAxisIndex: rows.length - 1, filterMode: "none" },
          ...{ zoomOnMouseWheel: false, moveOnMouseMove: false, preventDefaultMouseMove: false },
        },
      ],
    };
    rows.forEach((row, i) => {
      if (row.name === "faults") faultSeries(option, i, data);
      if (row.name === "leaders") leaderSeries(option, i, data, colours);
      if (row.name === "offsets") row.names = offsetSeries(option, i, data, colours, ink);
    });
    const height = stacked(rows, width, ink) + SLIDER;
    axes(option, rows, left, data, ink);
    option.legend = rows.filter((row) => row.names).map((row) => row.legend);
    return { option, height };
  }

  function partColour(row, part, colours, ink) {
    const own = { found: style("--fail"), read: style("--pass-ink"), live: style("--allowed-ink") }[row.look];
    return own ?? colours.get(part.epoch) ?? ink.dim;
  }

  function partText(data, row, part) {
    if (!["acked", "log"].includes(row.look)) return "";
    if (part.epoch !== null) return `epoch ${part.epoch}`;
    return row.look === "acked" && data.leaders.length ? "several epochs" : "";
  }

  function byOffset(data, width, chosen) {
    const ink = inks();
    const colours = coloursOf(data);
    const of = data.by_offset[chosen];
    const parts = of.rows.flatMap((row, at) => row.parts.map((part) => ({ ...part, at, row })));
    const left = width < NARROW ? 96 : 262;
    const height = of.rows.length * OFFSET_ROW + 26 + 76;
    const option = {
      animation: false,
      title: { text: "By offset", left: 0, top: 4, textStyle: { fontSize: 12, fontWeight: 600, color: ink.ink } },
      grid: { left, right: 14, top: 28, height: of.rows.length * OFFSET_ROW },
      textStyle: { fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
      tooltip: tooltip(ink, (p) => {
        const part = parts[p.dataIndex];
        const texts = [part.row.name, range(part.low, part.high)];
        if (part.share < 1) texts.push(`about ${Math.round(part.share * 100)} % of these offsets`);
        const epochs = partText(data, part.row, part);
        if (epochs) texts.push(`leader epoch: ${epochs}`);
        return lines(texts);
      }),
      dataZoom: zooms(ink, left, [0], (v) => number(Math.round(v))),
      xAxis: {
        type: "value",
        min: of.low,
        max: of.high + 1,
        axisLabel: { color: ink.dim, formatter: (v) => number(v), hideOverlap: true },
        axisLine: { lineStyle: { color: ink.line } },
        splitLine: { lineStyle: { color: ink.line, opacity: 0.5 } },
      },
      yAxis: {
        type: "category",
        data: of.rows.map((row) => row.name),
        inverse: true,
        axisTick: { show: false },
        splitLine: { show: false },
        axisLabel: { color: ink.ink, fontSize: 11, interval: 0, width: left - 10, overflow: "truncate" },
        axisLine: { lineStyle: { color: ink.line } },
      },
      series: {
        type: "custom",
        name: "offsets",
        animation: false,
        clip: true,
        encode: { x: [1, 2], y: 0 },
        data: parts.map((part) => [part.at, part.low, part.high + 1]),
        renderItem: (params, api) => {
          const made = band(
            OFFSET_ROW,
            (i) => partColour(parts[i].row, parts[i], colours, ink),
            (i) => partText(data, parts[i].row, parts[i]),
          )(params, api);
          if (made) made.children[0].style.opacity = 0.25 + 0.75 * parts[params.dataIndex].share;
          return made;
        },
      },
    };
    return { option, height };
  }

  function bar(place, buttons) {
    const made = element("div", "", { class: "controls" });
    buttons.forEach(([text, act]) => {
      const button = element("button", text, { type: "button" });
      button.addEventListener("click", act);
      made.append(button);
    });
    place.append(made);
  }

  // A chart that is drawn again when the theme or the width changes, and keeps its zoom.
  function kept(place, label, optionOf) {
    const box = element("div", "", { class: "chart", role: "img", "aria-label": label });
    place.append(box);
    let chart = null;
    const redraw = (zoomed = true) => {
      const { option, height } = optionOf(place.clientWidth);
      box.style.height = `${height}px`;
      const before = chart && zoomed ? chart.getOption().dataZoom : null;
      chart ??= echarts.init(box, null, { renderer: "svg" });
      chart.resize();
      if (before) option.dataZoom.forEach((z, i) => Object.assign(z, { start: before[i].start, end: before[i].end }));
      chart.setOption(option, { notMerge: true });
    };
    drawn.set(place, redraw);
    return { redraw, chart: () => chart };
  }

  // The offsets of the incident, with enough below and above to see where logs ended.
  function offsetsAround(data) {
    if (!data.offsets) return { start: 0, end: 100 };
    const [low, high] = data.offsets;
    const margin = Math.max(2 * (high - low), high / 8, 10);
    return { startValue: Math.max(0, low - margin), endValue: high + margin };
  }

  function drawByTime(place, data) {
    let at = 0;
    const acked = data.acked.reduce((sum, s) => sum + s.count, 0);
    const label =
      `History of ${data.partition || "the incident"} by time: ${data.faults.length} faults, ` +
      `${new Set(data.leaders.map((s) => s.epoch)).size} leader epochs, ${number(acked)} acknowledged records. ` +
      "The table of leader epochs has the times.";
    const zoom = (from, to, offsets = { start: 0, end: 100 }) =>
      made.chart().dispatchAction({
        type: "dataZoom",
        batch: [
          { dataZoomIndex: 0, startValue: from, endValue: to },
          { dataZoomIndex: 2, ...offsets },
        ],
      });
    const margin = (from, to) => Math.max(1, (to - from) / 4);
    const around = ([from, to], offsets) => zoom(from - margin(from, to), to + margin(from, to), offsets);
    bar(place, [
      ["whole run", () => zoom(Math.min(0, data.span ? data.span.from_s : 0), lengthOf(data))],
      ...(data.span ? [["the incident", () => around([data.span.from_s, data.span.to_s], offsetsAround(data))]] : []),
      ...data.faults.map((f) => [f.name, () => around([f.started_s, endOf(data, f)])]),
    ]);
    const made = kept(place, label, (width) => byTime(data, width, () => at));
    made.redraw(false);
    // An incident often shows at the elections after it.
    const later = data.span ? data.leaders.filter((s) => s.from_s >= data.span.to_s && s.from_s < data.span.to_s + 30) : [];
    const ends = data.moments.map((m) => m.to_s).filter((at) => data.span && at < data.span.to_s + 120);
    const until = data.span && Math.max(data.span.to_s, ...later.map((s) => s.from_s), ...ends);
    if (data.span) around([data.span.from_s, until], offsetsAround(data));
    made.chart().getZr().on("mousemove", (event) => {
      at = made.chart().convertFromPixel({ xAxisIndex: 0 }, event.offsetX);
    });
    place.append(
      element(
        "p",
        `Begins ${data.start} UTC. One point is ${seconds(data.width_s)}. Ctrl and the mouse wheel zoom; the slider ` +
          "moves. Times of leaders are those of the controllers' clocks.",
        { class: "dim" },
      ),
    );
  }

  function drawByOffset(place, data) {
    let chosen = data.by_offset.length - 1;
    bar(
      place,
      data.by_offset.map((of, i) => [
        of.name,
        () => {
          chosen = i;
          made.redraw(false);
        },
      ]),
    );
    const label =
      `Records of ${data.partition} by offset: ` +
      `${data.by_offset[0].rows.map((row) => `${row.name}, ${number(row.total)}`).join("; ")}.`;
    const made = kept(place, label, (width) => byOffset(data, width, chosen));
    made.redraw(false);
  }

  async function draw(place) {
    const data = await decoded(place.dataset.picture);
    await library();
    place.replaceChildren();
    (place.dataset.by === "time" ? drawByTime : drawByOffset)(place, data);
  }

  // At once and not when they are seen, because somebody may print the page.
  document
    .querySelectorAll(".picture")
    .forEach((place) => draw(place).catch((error) => failed(place, "picture", error)));
})();
