"use strict";
// Finer counts and the single operations of a part of a run, from files beside the page.
const zoom = (() => {
  const POINTS_LEAST = 150; // a curve with fewer points on the screen is coarse
  const OPERATIONS_MOST = 200_000; // of single operations that are loaded at once
  const INTERVALS = 300; // about so many, where the page counts the operations itself
  const MARGIN = 0.25; // of the part that is shown, on each side of it, so that moving it shows something at once
  const ROWS_MOST = 100; // of a table of operations
  const NS = 1e9;
  let opened = false; // whether the reader wants to see the operations

  // The least of 1, 2, 5, 10, 20, ... nanoseconds that is not below a number.
  function round(ns) {
    const ten = 10 ** Math.floor(Math.log10(Math.max(1, ns)));
    return [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= ns);
  }

  // The files of operations with a time in [from, to), in nanoseconds, and how many operations they have.
  function filesOf(details, from, to) {
    const { starts_ns: starts, rows } = details;
    const files = starts.flatMap((start, i) => (start < to && (starts[i + 1] ?? Infinity) > from ? [i] : []));
    return { files, rows: files.reduce((sum, i) => sum + rows[i], 0) };
  }

  // Chooses for a part of a run, in seconds: null = the counts that are in the page; else a level, or operations.
  function chosen(data, from, to) {
    const { details } = data;
    const length = to - from;
    if (!details || length >= charts.lengthOf(data) || length / data.width_s >= POINTS_LEAST) return null;
    const left = Math.max(0, from - length * MARGIN);
    const right = to + length * MARGIN;
    const width = round(((right - left) * NS) / (INTERVALS * (1 + 2 * MARGIN)));
    const begin = Math.floor((left * NS) / width) * width;
    const end = Math.ceil((right * NS) / width) * width;
    const { files, rows } = filesOf(details, begin, end);
    const fine = details.levels.filter((level) => level.width_s < data.width_s);
    if (rows <= OPERATIONS_MOST || !fine.length) return { operations: files, begin, end, width };
    const level = fine.find((one) => length / one.width_s >= POINTS_LEAST) ?? fine[fine.length - 1];
    return { level, left, right };
  }

  const summed = (column) => {
    let sum = 0;
    return Float64Array.from(column, (difference) => (sum += difference));
  };

  // A file of operations with its columns as numbers.
  const unfolded = (document) => {
    for (const kind of ["sends", "reads"])
      for (const [name, column] of Object.entries(document[kind])) document[kind][name] = summed(column);
    return document;
  };

  const nearestRank = (sorted, share) => sorted[Math.max(1, Math.ceil(sorted.length * share)) - 1];

  function counted(documents, begin, end, width) {
    const buckets = Math.max(1, Math.round((end - begin) / width));
    const empty = () => new Array(buckets).fill(0);
    const counts = { acked: empty(), refused: empty(), unknown: empty(), reads: empty() };
    const took = Array.from({ length: buckets }, () => []);
    for (const { sends, reads, outcomes } of documents) {
      const times = sends.returned_ns ?? [];
      for (let i = 0; i < times.length; i += 1) {
        const at = Math.floor((times[i] - begin) / width);
        if (at < 0 || at >= buckets) continue;
        const outcome = outcomes[sends.outcome[i]];
        counts[outcome][at] += 1;
        if (outcome === "acked") took[at].push((times[i] - sends.called_ns[i]) / 1e6);
      }
      for (const time of reads.given_ns ?? []) {
        const at = Math.floor((time - begin) / width);
        if (at >= 0 && at < buckets) counts.reads[at] += 1;
      }
    }
    took.forEach((of) => of.sort((a, b) => a - b));
    const percentile = (share) => took.map((of) => (of.length ? nearestRank(of, share) : null));
    return { ...counts, p50_ms: percentile(0.5), p99_ms: percentile(0.99) };
  }

  // The operations with a time in [from, to), in nanoseconds, in the order of time. After the last time of the chart
  // come reads that ended later.
  function within(documents, from, to) {
    const sends = [];
    const reads = [];
    for (const { places, readers, errors, outcomes, sends: sent, reads: read } of documents) {
      (sent.returned_ns ?? []).forEach((at, i) => {
        if (at < from || at >= to) return;
        sends.push({
          at,
          called: sent.called_ns[i],
          place: places[sent.place[i]],
          offset: sent.offset[i] < 0 ? null : sent.offset[i],
          outcome: outcomes[sent.outcome[i]],
          error: errors[sent.error[i]] ?? "",
          stream: sent.stream[i],
          seq: sent.seq[i],
        });
      });
      (read.given_ns ?? []).forEach((at, i) => {
        if (at < from || at >= to) return;
        reads.push({ at, reader: readers[read.reader[i]], place: places[read.place[i]], offset: read.offset[i] });
      });
    }
    const byTime = (a, b) => a.at - b.at;
    return { sends: sends.sort(byTime), reads: reads.sort(byTime) };
  }

  // Loads [from, to), in seconds. counts: by intervals from `from_s` on, each `width_s` long.
  // operations: the single ones in [from, to); null = there are too many to be loaded.
  async function shown(data, from, to) {
    const choice = chosen(data, from, to);
    if (!choice) return null;
    const { details } = data;
    const get = (name) => charts.beside(details, name);
    const positions = details.positions ? await get("positions") : data.positions;
    if (choice.level) {
      const { level } = choice;
      const file = (seconds) => Math.floor(seconds / level.width_s / details.level_buckets);
      const last = Math.min(file(choice.right), Math.ceil(level.buckets / details.level_buckets) - 1);
      const first = Math.min(file(choice.left), last);
      const names = Array.from({ length: last - first + 1 }, (_, i) => `${level.name}-${first + i}`);
      const parts = await Promise.all(names.map(get));
      const join = (name) => parts.flatMap((part) => part[name]);
      const figures = ["acked", "refused", "unknown", "reads", "p50_ms", "p99_ms"];
      const counts = Object.fromEntries(figures.map((name) => [name, join(name)]));
      const from_s = first * details.level_buckets * level.width_s;
      return { from_s, width_s: level.width_s, counts, operations: null, positions };
    }
    const { begin, end, width, operations } = choice;
    const documents = await Promise.all(operations.map((i) => charts.beside(details, `operations-${i}`, unfolded)));
    return {
      from_s: begin / NS,
      width_s: width / NS,
      counts: counted(documents, begin, end, width),
      operations: within(documents, from * NS, to >= charts.lengthOf(data) ? Infinity : to * NS),
      positions,
    };
  }

  // A table of operations, the first of them.
  function table(title, heads, rows) {
    const box = charts.element("div", "", { class: "scroll low", tabindex: "0", role: "region", "aria-label": title });
    const made = charts.element("table", "", { class: "operations" });
    const head = made.createTHead().insertRow();
    heads.forEach((name) => head.append(charts.element("th", name, { scope: "col" })));
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((text) => (line.insertCell().textContent = text));
    }
    box.append(made);
    return box;
  }

  const exact = (ns, per, digits) => (ns / per).toFixed(digits);

  // The operations in words: how many there are, and the first of them. A reader who cannot see the chart finds all of
  // them here.
  function tables(data, { sends, reads }) {
    const of = (outcome) => sends.filter((send) => send.outcome === outcome).length.toLocaleString("en-US");
    const total = reads.length.toLocaleString("en-US");
    const said = `In view: ${of("acked")} acked, ${of("refused")} refused, ${of("unknown")} unknown, ${total} live reads`;
    const box = charts.element("details", "");
    box.append(charts.element("summary", said));
    const fill = () => {
      if (box.childElementCount > 1) return;
      for (const [title, heads, rows, made] of [
        [
          "sends",
          ["outcome at, s", "took, ms", "outcome", "partition", "offset", "stream", "sequence", "error"],
          sends,
          (s) => [
            exact(s.at, NS, 9),
            exact(s.at - s.called, 1e6, 6),
            s.outcome,
            s.place,
            s.offset ?? "",
            s.stream,
            s.seq,
            s.error,
          ],
        ],
        [
          "live reads",
          ["received at, s", "reader", "partition", "offset"],
          reads,
          (r) => [exact(r.at, NS, 9), r.reader, r.place, r.offset],
        ],
      ]) {
        if (!rows.length) continue;
        const first = rows.slice(0, ROWS_MOST);
        const all = first.length === rows.length;
        const head = all ? `All ${title}` : `The first ${first.length} of ${rows.length.toLocaleString("en-US")} ${title}`;
        box.append(charts.element("p", head), table(head, heads, first.map(made)));
      }
    };
    box.addEventListener("toggle", fill);
    box.open = opened;
    box.addEventListener("toggle", () => (opened = box.open));
    return [box];
  }

  return { shown, tables };
})();
