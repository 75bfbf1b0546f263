"use strict";
// Draws the timelines of the page.
(() => {
  const { FAULT_ROW, PALETTE, band, clock, decoded, drawn, element, endOf, faultAreas, faultSeries } = charts;
  const { lasting, lengthOf, line, lines, number, seconds, stacked, style, whenSeen } = charts;
  const LEADER_ROW = 18;
  const NARROW = 600;
  const SLIDER = 62; // height of the slider below the rows
  const NS = 1e9;
  const SINGLY_MOST = 2_000; // operations that are drawn one by one; more of them hide each other
  const NEAREST_MOST = 5; // operations that are named at the pointer
  const WAIT_MS = 200; // after the last zoom, before its details are loaded
  const LENGTH_LEAST_S = 1e-5; // of the part that a button zooms to

  function brokersOf(data) {
    const ids = new Set();
    data.leaders.forEach((of) =>
      of.spans.forEach((s) => {
        ids.add(s.leader);
        s.isr.forEach((b) => ids.add(b));
      }),
    );
    data.positions.forEach((of) => Object.keys(of.ends).forEach((b) => ids.add(Number(b))));
    ids.delete(-1);
    const sorted = [...ids].sort((a, b) => a - b);
    return new Map(sorted.map((id, i) => [id, PALETTE[i % PALETTE.length]]));
  }

  const open = (data, at) => data.faults.filter((f) => f.started_s <= at && at <= endOf(data, f)).map((f) => f.name);

  function heading(data, at, digits) {
    const active = open(data, at);
    return `${seconds(at, digits)} · ${clock(data, at)} UTC${active.length ? ` · ${active.join(", ")}` : ""}`;
  }

  function layout(data, narrow) {
    const rows = [];
    const add = (name, height, title) => rows.push({ name, height, title });
    if (data.faults.length) add("faults", data.faults.length * FAULT_ROW, "Faults: injection, effect, healing, recovery");
    if (data.incidents.length)
      add(
        "incidents",
        data.incidents.length * FAULT_ROW,
        narrow
          ? "Incidents: sent, acknowledged, transaction ended"
          : "Incidents: red bar when their records were sent, green line acknowledged, purple line transaction ended",
      );
    if (data.rates) {
      add("rates", 120, narrow ? "Records a second" : "Records a second (a gap: none)");
      add("latency", 110, "Ack latency, ms");
    }
    if (data.leaders.length)
      add("leaders", data.leaders.length * LEADER_ROW, "Leader of each partition: broker and leader epoch");
    if (data.positions.length) add("positions", 190, narrow ? "Offsets" : "Offsets of one partition");
    return { rows, left: narrow ? 62 : 116 };
  }

  function axes(option, rows, left, data, digits, ink) {
    rows.forEach((row, i) => {
      const named = {
        faults: () => data.faults.map((f) => f.name),
        incidents: () => data.incidents.map(() => ""),
        leaders: () => data.leaders.map((l) => l.partition),
      };
      const banded = row.name in named;
      const names = banded ? named[row.name]() : [];
      option.title.push({
        text: row.title,
        left: 0,
        top: row.titleTop,
        textStyle: { fontSize: 12, fontWeight: 600, color: ink.ink },
      });
      option.grid.push({
        left,
        right: 14,
        top: row.top,
        height: row.height,
        tooltip: banded ? {} : { trigger: "axis" },
      });
      option.xAxis.push({
        gridIndex: i,
        type: "value",
        min: 0,
        max: lengthOf(data),
        axisLabel: { color: ink.dim, formatter: (v) => seconds(v, digits), hideOverlap: true, showMaxLabel: false },
        axisLine: { lineStyle: { color: ink.line } },
        splitLine: { lineStyle: { color: ink.line, opacity: 0.5 } },
        axisPointer: { show: true, type: "line", snap: false, label: { show: false }, lineStyle: { color: ink.dim } },
      });
      option.yAxis.push({
        gridIndex: i,
        ...(banded
          ? { type: "category", data: names, inverse: true, axisTick: { show: false }, splitLine: { show: false } }
          : {
              type: row.name === "positions" ? "value" : "log",
              scale: row.name === "positions",
              splitNumber: 4,
              splitLine: { lineStyle: { color: ink.line } },
            }),
        axisLabel: banded
          ? { color: ink.ink, fontSize: 11, interval: 0, width: left - 10, overflow: "truncate" }
          : { color: ink.dim, fontSize: 11, formatter: (v) => number(v) },
        axisLine: { lineStyle: { color: ink.line } },
      });
    });
  }

  // The counts of the page itself, in the form in which `zoom` has those of a part.
  const whole = (data) => ({
    from_s: 0,
    width_s: data.width_s,
    counts: data.rates,
    operations: null,
    positions: data.positions,
  });

  // Digits after the point for times, where an interval is so long.
  const digitsOf = (width_s) => Math.min(9, Math.max(3, Math.ceil(-Math.log10(width_s)) + 1));

  const middle = (view, i) => view.from_s + (i + 0.5) * view.width_s;
  const drawnSingly = ({ operations }) => operations !== null && operations.sends.length <= SINGLY_MOST;

  // Points of a part of a run are mostly apart from each other, and have to be seen without a line.
  const apart = (view, data, more = {}) => ({
    ...more,
    rest: view.width_s < data.width_s ? { symbolSize: 4 } : {},
  });

  function rateSeries(option, index, data, view) {
    const { counts } = view;
    const perSecond = (of) => of.map((count, i) => [middle(view, i), count ? count / view.width_s : null]);
    const errors = counts.refused.map((count, i) => count + counts.unknown[i]);
    const first = line("acks", index, perSecond(counts.acked), "#009e73", apart(view, data));
    first.markArea = faultAreas(data);
    option.series.push(
      first,
      line("errors", index, perSecond(errors), "#d4323f", apart(view, data)),
      line(
        "live reads (all readers)",
        index,
        perSecond(counts.reads),
        style("--blue"),
        apart(view, data, { lineStyle: { width: 1, opacity: 0.75 } }),
      ),
    );
  }

  function latencySeries(option, index, data, view) {
    const points = (values) => values.map((value, i) => [middle(view, i), value]);
    const first = line("p50", index, points(view.counts.p50_ms), style("--blue"), apart(view, data));
    first.markArea = faultAreas(data);
    option.series.push(first, line("p99", index, points(view.counts.p99_ms), "#d55e00", apart(view, data)));
    if (!drawnSingly(view)) return;
    const acked = view.operations.sends.filter((send) => send.outcome === "acked");
    const others = view.operations.sends.filter((send) => send.outcome !== "acked");
    const singly = (name, sends, colour) => {
      if (sends.length) option.series.push(dots(name, index, sends.map((s) => [s.at / NS, tookMs(s)]), colour));
    };
    singly("single acks", acked, "#009e73");
    singly("single errors", others, "#d4323f");
  }

  const tookMs = (send) => (send.at - send.called) / 1e6;

  function dots(name, index, points, colour) {
    return {
      name,
      type: "scatter",
      xAxisIndex: index,
      yAxisIndex: index,
      data: points,
      animation: false,
      symbolSize: 4,
      itemStyle: { color: colour, opacity: 0.8 },
      emphasis: { disabled: true },
    };
  }

  function leaderSeries(option, index, data, colours) {
    const spans = data.leaders.flatMap((of, row) =>
      of.spans.map((span) => ({ ...span, row, partition: of.partition })),
    );
    option.series.push({
      type: "custom",
      name: "leaders",
      xAxisIndex: index,
      yAxisIndex: index,
      animation: false,
      clip: true,
      encode: { x: [1, 2], y: 0 },
      data: spans.map((s) => [s.row, s.from_s, s.to_s]),
      renderItem: band(
        LEADER_ROW,
        (i) => (spans[i].leader < 0 ? "#3a3f44" : colours.get(spans[i].leader)),
        (i) => (spans[i].leader < 0 ? "none" : `${spans[i].leader} · e${spans[i].epoch}`),
      ),
      tooltip: {
        formatter: (p) => {
          const s = spans[p.dataIndex];
          return lines([
            s.partition,
            s.leader < 0 ? "no leader" : `leader: broker ${s.leader}`,
            `leader epoch: ${s.epoch}`,
            `ISR: ${s.isr.join(", ") || "empty"}`,
            `${seconds(s.from_s)} to ${seconds(s.to_s)}`,
            `from ${clock(data, s.from_s)} UTC`,
          ]);
        },
      },
    });
  }

  function incidentSeries(option, index, data) {
    const marks = data.incidents;
    option.series.push({
      type: "custom",
      name: "incidents",
      xAxisIndex: index,
      yAxisIndex: index,
      animation: false,
      clip: true,
      encode: { x: [1, 2], y: 0 },
      data: marks.map((m, i) => [i, m.from_s, m.to_s]),
      renderItem: (params, api) => {
        const [x, y] = api.coord([marks[params.dataIndex].from_s, params.dataIndex]);
        const [end] = api.coord([marks[params.dataIndex].to_s, params.dataIndex]);
        const { text, moments } = marks[params.dataIndex];
        const area = params.coordSys;
        const lines = moments
          .map(([what, at]) => [what, api.coord([at, params.dataIndex])[0]])
          .filter(([, at]) => at >= area.x && at <= area.x + area.width);
        const [wide, after] = [text.length * 6.3, Math.max(x + 3, end, ...lines.map(([, at]) => at)) + 5];
        const place =
          after + wide < area.x + area.width
            ? { x: after, align: "left", fill: style("--ink") }
            : x - wide > area.x
              ? { x: x - 5, align: "right", fill: style("--ink") }
              : { x: Math.max(x, area.x) + 4, align: "left", fill: "#fff" };
        return {
          type: "group",
          children: [
            {
              type: "rect",
              shape: { x, y: y - FAULT_ROW / 2 + 2, width: Math.max(3, end - x), height: FAULT_ROW - 4 },
              style: { fill: style("--fail") },
            },
            ...lines.map(([what, at]) => ({
              type: "line",
              shape: { x1: at, y1: y - FAULT_ROW / 2 + 1, x2: at, y2: y + FAULT_ROW / 2 - 1 },
              style: { stroke: what === "acknowledged" ? "#009e73" : "#8c6bb1", lineWidth: 2.5 },
            })),
            { type: "text", style: { ...place, y, text, fontSize: 11, verticalAlign: "middle" } },
          ],
        };
      },
      tooltip: {
        formatter: (p) =>
          lines([
            marks[p.dataIndex].text,
            `${seconds(marks[p.dataIndex].from_s)} to ${seconds(marks[p.dataIndex].to_s)}`,
            `from ${clock(data, marks[p.dataIndex].from_s)} UTC`,
            ...marks[p.dataIndex].moments.slice(0, 6).map(([what, at]) => `${what} at ${seconds(at)}`),
          ]),
      },
    });
  }

  function positionSeries(option, index, data, view, chosen, colours, ink) {
    const of = view.positions[chosen];
    const step = { rest: { step: "end", connectNulls: false } };
    const shown = [];
    for (const [broker, points] of Object.entries(of.ends)) {
      shown.push(line(`log end of broker ${broker}`, index, points, colours.get(Number(broker)), step));
    }
    shown.push(
      line("high watermark", index, of.high_watermark, ink.ink, { lineStyle: { width: 1.5, type: "dashed" }, ...step }),
    );
    shown.push(line("log start", index, of.log_start, ink.dim, { lineStyle: { width: 1.5, type: "dotted" }, ...step }));
    if (of.tiered.length)
      shown.push(line("tier frontier", index, of.tiered, "#8c6bb1", { lineStyle: { type: "dashed" }, ...step }));
    shown[0].markArea = faultAreas(data);
    option.series.push(...shown);
    if (!drawnSingly(view)) return;
    const acked = view.operations.sends.filter((s) => s.place === of.partition && s.offset !== null);
    if (acked.length) option.series.push(dots("single acks", index, acked.map((s) => [s.at / NS, s.offset]), "#009e73"));
  }

  // The last value of a step line at a time; null where nothing is known.
  function valueAt(points, at) {
    let found = null;
    for (const [time, value] of points) {
      if (time > at) break;
      found = value;
    }
    return found;
  }

  // The sends whose outcome came within half an interval of a time.
  function nearest(view, at) {
    const near = view.operations.sends.filter((send) => Math.abs(send.at / NS - at) <= view.width_s / 2);
    return near.slice(0, NEAREST_MOST);
  }

  function operationText(send) {
    const where = send.offset === null ? send.place : `${send.place}, offset ${send.offset}`;
    return `${send.outcome}: ${where}, after ${number(tookMs(send))} ms${send.error ? `, ${send.error}` : ""}`;
  }

  // The lowest and the highest offset in a part of the run. ECharts would take those of the whole run.
  function offsetsIn(of, [from, to]) {
    const lines = [...Object.values(of.ends), of.high_watermark, of.log_start, of.tiered];
    const values = lines.flatMap((points) => [
      valueAt(points, from),
      ...points.filter(([time]) => time >= from && time <= to).map(([, value]) => value),
    ]);
    const known = values.filter((value) => value !== null);
    return known.length ? { min: Math.min(...known), max: Math.max(...known) } : {};
  }

  // Everything that the rows show at the pointer. ECharts would list the nearest points of each series instead.
  function valuesAt(data, view, chosen, at) {
    const texts = [heading(data, at, digitsOf(view.width_s))];
    if (view.counts) {
      const r = view.counts;
      const i = Math.min(r.acked.length - 1, Math.max(0, Math.floor((at - view.from_s) / view.width_s)));
      const rate = (count) => number(count / view.width_s);
      texts.push(
        `acks: ${rate(r.acked[i])}/s, errors: ${rate(r.refused[i] + r.unknown[i])}/s, ` +
          `live reads: ${rate(r.reads[i])}/s`,
      );
      if (r.p50_ms[i] !== null) texts.push(`ack latency: p50 ${number(r.p50_ms[i])} ms, p99 ${number(r.p99_ms[i])} ms`);
    }
    if (drawnSingly(view)) texts.push(...nearest(view, at).map(operationText));
    const of = view.positions[chosen];
    if (of) {
      const rows = [
        ["high watermark", of.high_watermark],
        ["log start", of.log_start],
        ["tier frontier", of.tiered],
        ...Object.entries(of.ends).map(([broker, points]) => [`log end of broker ${broker}`, points]),
      ];
      const known = rows.map(([name, points]) => [name, valueAt(points, at)]).filter(([, value]) => value !== null);
      if (known.length)
        texts.push(`${of.partition}: ${known.map(([name, value]) => `${name} ${number(value)}`).join(", ")}`);
    }
    const led = data.leaders.map((l) => [l.partition, l.spans.find((s) => s.from_s <= at && at < s.to_s)]);
    if (led.length <= 8) {
      led
        .filter(([, s]) => s)
        .forEach(([name, s]) =>
          texts.push(
            `${name}: ${s.leader < 0 ? "no leader" : `leader ${s.leader}`}, epoch ${s.epoch}, ` +
              `ISR ${s.isr.join(", ") || "empty"}`,
          ),
        );
    }
    return lines(texts);
  }

  function optionOf(data, view, part, chosen, width, pointer) {
    const ink = { ink: style("--ink"), dim: style("--dim"), line: style("--line"), paper: style("--paper") };
    const colours = brokersOf(data);
    const { rows, left } = layout(data, width < NARROW);
    const every = rows.map((_, i) => i);
    const option = {
      animation: false,
      title: [],
      grid: [],
      xAxis: [],
      yAxis: [],
      series: [],
      textStyle: { fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      tooltip: {
        trigger: "item",
        confine: true,
        backgroundColor: ink.paper,
        borderColor: ink.line,
        textStyle: { color: ink.ink, fontSize: 12 },
        extraCssText: "max-width:26rem;white-space:normal",
        formatter: (params) => (Array.isArray(params) ? valuesAt(data, view, chosen, pointer()) : ""),
      },
      dataZoom: [
        {
          type: "slider",
          xAxisIndex: every,
          bottom: 12,
          height: 18,
          left,
          right: 14,
          labelFormatter: (v) => seconds(v, digitsOf(view.width_s)),
          filterMode: "none",
          textStyle: { color: ink.dim },
          borderColor: ink.line,
          showDataShadow: false,
        },
        {
          type: "inside",
          xAxisIndex: every,
          filterMode: "none",
          zoomOnMouseWheel: "ctrl",
          moveOnMouseWheel: false,
          preventDefaultMouseMove: false,
        },
      ],
      legend: [],
    };
    rows.forEach((row, i) => {
      const before = option.series.length;
      if (row.name === "faults") faultSeries(option, i, data);
      if (row.name === "incidents") incidentSeries(option, i, data);
      if (row.name === "rates") rateSeries(option, i, data, view);
      if (row.name === "latency") latencySeries(option, i, data, view);
      if (row.name === "leaders") leaderSeries(option, i, data, colours);
      if (row.name === "positions") positionSeries(option, i, data, view, chosen, colours, ink);
      if (["rates", "latency", "positions"].includes(row.name))
        row.names = option.series.slice(before).map((s) => s.name);
    });
    const height = stacked(rows, width, ink) + SLIDER;
    axes(option, rows, left, data, digitsOf(view.width_s), ink);
    option.legend = rows.filter((row) => row.names).map((row) => row.legend);
    rows.forEach((row, i) => {
      if (row.name === "positions" && part) Object.assign(option.yAxis[i], offsetsIn(view.positions[chosen], part));
    });
    return { option, height };
  }

  // The part of the run that a chart shows, in seconds.
  function partOf(data, chart) {
    const { startValue, endValue } = chart.getOption().dataZoom[0];
    return [Math.max(0, startValue), Math.min(lengthOf(data), endValue)];
  }

  function controls(box, data, chart, chosen, redraw) {
    const bar = element("div", "", { class: "controls" });
    const show = (from, to) => {
      const length = Math.min(lengthOf(data), to - from);
      const begin = Math.min(Math.max(0, from), lengthOf(data) - length);
      chart().dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: begin, endValue: begin + length });
    };
    const button = (text, act, label = text) => {
      const made = element("button", text, { type: "button", "aria-label": label, title: label });
      made.addEventListener("click", act);
      bar.append(made);
    };
    const stretch = (by) => () => {
      const [from, to] = partOf(data, chart());
      const half = Math.max(LENGTH_LEAST_S, (to - from) * by) / 2;
      show((from + to) / 2 - half, (from + to) / 2 + half);
    };
    const move = (by) => () => {
      const [from, to] = partOf(data, chart());
      show(from + (to - from) * by, to + (to - from) * by);
    };
    button("whole run", () => show(0, lengthOf(data)));
    data.faults.forEach((f) =>
      button(f.name, () => show(Math.max(0, f.started_s - 1), Math.min(lengthOf(data), endOf(data, f) + 2))),
    );
    button("+", stretch(1 / 4), "zoom in");
    button("\u2212", stretch(4), "zoom out");
    button("\u25c0", move(-1 / 2), "earlier");
    button("\u25b6", move(1 / 2), "later");
    if (data.positions.length) {
      const label = element("label", "Offsets of ");
      const select = element("select", "");
      data.positions.forEach((of, i) => select.append(element("option", of.partition, { value: String(i) })));
      select.value = String(chosen);
      select.addEventListener("change", () => redraw(Number(select.value)));
      label.append(select);
      bar.append(label);
    }
    box.before(bar);
    return bar;
  }

  // Says what a chart shows, and lists single operations.
  function explain(data, view, said, table) {
    const part = view.from_s || view.width_s !== data.width_s ? `One point is ${lasting(view.width_s)}` : "";
    const finer = data.details ? " Zoom in for single operations." : "";
    said.textContent = part
      ? `${part}${view.operations ? ", counted from single operations." : "; zoom in for single operations."}`
      : `One point is ${lasting(data.width_s)}.${finer}`;
    table.replaceChildren(...(view.operations ? zoom.tables(data, view.operations) : []));
  }

  async function draw(place) {
    const data = await decoded(place.dataset.timeline);
    place.replaceChildren();
    const name = place.dataset.name;
    const acked = data.rates ? data.rates.acked.reduce((a, b) => a + b, 0) : 0;
    const box = element("div", "", {
      class: "chart",
      role: "img",
      "aria-label":
        `Timeline of ${name}: ${data.faults.length} faults in ${seconds(lengthOf(data))}, ` +
        `${number(acked)} records acknowledged. The table of steps has the times.`,
    });
    const said = element("p", "", { class: "dim", role: "status" });
    const table = element("div", "");
    place.append(box, said, table);
    let chart = null;
    let view = whole(data);
    let at = 0; // where the pointer is, in seconds
    let chosen = Math.max(
      0,
      data.positions.findIndex((of) => of.partition === place.dataset.place),
    );
    const redraw = (partition = chosen) => {
      chosen = partition;
      const part = chart ? partOf(data, chart) : null;
      const { option, height } = optionOf(data, view, part, chosen, place.clientWidth, () => at);
      box.style.height = `${height}px`;
      const zoomed = chart ? chart.getOption().dataZoom[0] : null;
      if (!chart) {
        chart = echarts.init(box, null, { renderer: "svg" });
        chart.getZr().on("mousemove", (event) => {
          at = chart.convertFromPixel({ xAxisIndex: 0 }, event.offsetX);
        });
        chart.on("datazoom", refine);
      }
      chart.resize();
      if (zoomed)
        option.dataZoom.forEach((z) => {
          z.start = zoomed.start;
          z.end = zoomed.end;
        });
      chart.setOption(option, { notMerge: true });
      explain(data, view, said, table);
    };
    const change = async () => {
      const [from, to] = partOf(data, chart);
      try {
        const found = await zoom.shown(data, from, to);
        if (String(partOf(data, chart)) !== String([from, to])) return; // it was zoomed again meanwhile
        view = found ?? whole(data);
        redraw();
      } catch (error) {
        view = whole(data);
        redraw();
        said.textContent = `Single operations cannot be shown: ${error.message || error}.`;
      }
    };
    let pending = 0;
    const refine = () => {
      clearTimeout(pending);
      pending = setTimeout(change, WAIT_MS);
    };
    controls(box, data, () => chart, chosen, redraw);
    place.append(
      element(
        "p",
        `Begins ${data.start} UTC. Ctrl and the mouse wheel zoom all rows; the slider moves them. A fault is dark while ` +
          "it is injected, has a line where a leader or an ISR changed first, and green behind it until every ISR was " +
          "full. Times of leaders and ISRs are those of the controllers' clocks.",
        { class: "dim" },
      ),
    );
    redraw();
    drawn.set(place, redraw);
  }

  whenSeen(".timeline", "timeline", draw);

  // A link to a scenario opens it.
  function reveal() {
    const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
