"use strict";
// Draws the timelines of the page.
(() => {
  const { FAULT_ROW, PALETTE, band, clock, decoded, drawn, element, endOf, faultAreas, faultSeries } = charts;
  const { lengthOf, line, lines, number, seconds, style, whenSeen } = charts;
  const LEADER_ROW = 18;
  const GAP = 44;

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

  function heading(data, at) {
    const active = open(data, at);
    return `${seconds(at)} · ${clock(data, at)} UTC${active.length ? ` · ${active.join(", ")}` : ""}`;
  }

  function layout(data, narrow) {
    const rows = [];
    const add = (name, height, title) => rows.push({ name, height, title });
    if (data.faults.length) add("faults", data.faults.length * FAULT_ROW, "Faults, from injection to healing");
    if (data.incidents.length)
      add("incidents", data.incidents.length * FAULT_ROW, "Incidents, by when their records were sent");
    if (data.rates) {
      add("rates", 120, narrow ? "Records a second" : "Records a second (a gap: none)");
      add("latency", 110, "Ack latency, ms");
    }
    if (data.leaders.length)
      add("leaders", data.leaders.length * LEADER_ROW, "Leader of each partition: broker and leader epoch");
    if (data.positions.length) add("positions", 190, "Offsets of one partition");
    let top = 26;
    for (const row of rows) {
      row.top = top;
      top += row.height + GAP;
    }
    return { rows, left: narrow ? 62 : 116, height: top + 40 };
  }

  function axes(option, rows, left, data, ink) {
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
        top: row.top - 22,
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
        axisLabel: { color: ink.dim, formatter: (v) => seconds(v), hideOverlap: true, showMaxLabel: false },
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

  function rateSeries(option, index, data) {
    const at = (i) => (i + 0.5) * data.width_s;
    const perSecond = (counts) => counts.map((count, i) => [at(i), count ? count / data.width_s : null]);
    const errors = data.rates.refused.map((count, i) => count + data.rates.unknown[i]);
    const first = line("acks", index, perSecond(data.rates.acked), "#009e73");
    first.markArea = faultAreas(data);
    option.series.push(
      first,
      line("errors", index, perSecond(errors), "#d4323f"),
      line("live reads (all readers)", index, perSecond(data.rates.reads), "#0072b2", {
        lineStyle: { width: 1, opacity: 0.75 },
      }),
    );
  }

  function latencySeries(option, index, data) {
    const at = (i) => (i + 0.5) * data.width_s;
    const points = (values) => values.map((value, i) => [at(i), value]);
    const first = line("p50", index, points(data.rates.p50_ms), "#0072b2");
    first.markArea = faultAreas(data);
    option.series.push(first, line("p99", index, points(data.rates.p99_ms), "#d55e00"));
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
        const { text } = marks[params.dataIndex];
        const area = params.coordSys;
        const [wide, after] = [text.length * 6.3, Math.max(x + 3, end) + 5];
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
          ]),
      },
    });
  }

  function positionSeries(option, index, data, chosen, colours, ink) {
    const of = data.positions[chosen];
    const step = { rest: { step: "end", connectNulls: false } };
    const shown = [];
    for (const [broker, points] of Object.entries(of.ends)) {
      shown.push(line(`log end of ${broker}`, index, points, colours.get(Number(broker)), step));
    }
    shown.push(
      line("high watermark", index, of.high_watermark, ink.ink, { lineStyle: { width: 1.5, type: "dashed" }, ...step }),
    );
    shown.push(line("log start", index, of.log_start, ink.dim, { lineStyle: { width: 1.5, type: "dotted" }, ...step }));
    if (of.tiered.length)
      shown.push(line("tier frontier", index, of.tiered, "#8c6bb1", { lineStyle: { type: "dashed" }, ...step }));
    shown[0].markArea = faultAreas(data);
    option.series.push(...shown);
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

  // Everything that the rows show at the pointer. ECharts would list the nearest points of each series instead.
  function valuesAt(data, chosen, at) {
    const texts = [heading(data, at)];
    if (data.rates) {
      const i = Math.min(data.buckets - 1, Math.max(0, Math.floor(at / data.width_s)));
      const r = data.rates;
      const rate = (count) => number(count / data.width_s);
      texts.push(
        `acks: ${rate(r.acked[i])}/s, errors: ${rate(r.refused[i] + r.unknown[i])}/s, ` +
          `live reads: ${rate(r.reads[i])}/s`,
      );
      if (r.p50_ms[i] !== null) texts.push(`ack latency: p50 ${number(r.p50_ms[i])} ms, p99 ${number(r.p99_ms[i])} ms`);
    }
    const of = data.positions[chosen];
    if (of) {
      const rows = [
        ["high watermark", of.high_watermark],
        ["log start", of.log_start],
        ["tier frontier", of.tiered],
        ...Object.entries(of.ends).map(([broker, points]) => [`log end of ${broker}`, points]),
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

  function optionOf(data, chosen, narrow, pointer) {
    const ink = { ink: style("--ink"), dim: style("--dim"), line: style("--line"), paper: style("--paper") };
    const colours = brokersOf(data);
    const { rows, left, height } = layout(data, narrow);
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
        formatter: (params) => (Array.isArray(params) ? valuesAt(data, chosen, pointer()) : ""),
      },
      dataZoom: [
        {
          type: "slider",
          xAxisIndex: every,
          bottom: 12,
          height: 18,
          left,
          right: 14,
          labelFormatter: (v) => seconds(v),
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
    axes(option, rows, left, data, ink);
    const legend = (row, names) =>
      option.legend.push({
        data: names,
        top: row.top - 24,
        right: 8,
        itemWidth: 16,
        itemHeight: 8,
        type: "scroll",
        left: narrow ? "45%" : "40%",
        textStyle: { color: ink.ink, fontSize: 11 },
      });
    rows.forEach((row, i) => {
      const before = option.series.length;
      if (row.name === "faults") faultSeries(option, i, data);
      if (row.name === "incidents") incidentSeries(option, i, data);
      if (row.name === "rates") rateSeries(option, i, data);
      if (row.name === "latency") latencySeries(option, i, data);
      if (row.name === "leaders") leaderSeries(option, i, data, colours);
      if (row.name === "positions") positionSeries(option, i, data, chosen, colours, ink);
      if (!["faults", "incidents", "leaders"].includes(row.name))
        legend(
          row,
          option.series.slice(before).map((s) => s.name),
        );
    });
    return { option, height };
  }

  function controls(box, data, chart, chosen, redraw) {
    const bar = element("div", "", { class: "controls" });
    const zoom = (from, to) =>
      chart().dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: from, endValue: to });
    const button = (text, from, to) => {
      const made = element("button", text, { type: "button" });
      made.addEventListener("click", () => zoom(from, to));
      bar.append(made);
    };
    button("whole run", 0, lengthOf(data));
    data.faults.forEach((f) =>
      button(f.name, Math.max(0, f.started_s - 1), Math.min(lengthOf(data), endOf(data, f) + 2)),
    );
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
    place.append(box);
    let chart = null;
    let at = 0; // where the pointer is, in seconds
    let chosen = Math.max(
      0,
      data.positions.findIndex((of) => of.partition === place.dataset.place),
    );
    const redraw = (partition = chosen) => {
      chosen = partition;
      const { option, height } = optionOf(data, chosen, place.clientWidth < 600, () => at);
      box.style.height = `${height}px`;
      const zoomed = chart ? chart.getOption().dataZoom[0] : null;
      if (!chart) {
        chart = echarts.init(box, null, { renderer: "svg" });
        chart.getZr().on("mousemove", (event) => {
          at = chart.convertFromPixel({ xAxisIndex: 0 }, event.offsetX);
        });
      }
      chart.resize();
      if (zoomed)
        option.dataZoom.forEach((z) => {
          z.start = zoomed.start;
          z.end = zoomed.end;
        });
      chart.setOption(option, { notMerge: true });
    };
    controls(box, data, () => chart, chosen, redraw);
    place.append(
      element(
        "p",
        `Begins ${data.start} UTC. One point is ${seconds(data.width_s)}. Ctrl and the mouse wheel zoom all rows; ` +
          "the slider moves them. Times of leaders are those of the controllers' clocks.",
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
