// The overview of the owner. Figures are fetched again every few seconds.
"use strict";

const draw = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const n = (value) => value.toLocaleString();
const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)}\u00a0%`;
const selected = new Set();
let wasRunning = false, shownSuspects = "";

function fill(table, headings, rows) {
  const head = make("thead"), body = make("tbody"), top = make("tr");
  headings.forEach((each) => top.append(make("th", each)));
  head.append(top);
  for (const cells of rows) {
    const row = make("tr");
    cells.forEach((each) => {
      const cell = make("td");
      cell.append(each instanceof Node ? each : String(each));
      row.append(cell);
    });
    body.append(row);
  }
  table.replaceChildren(head, body);
}

function meter(share) {
  const outer = make("span", undefined, "meter"), inner = make("i");
  inner.style.width = `${100 * Math.min(share, 1)}%`;
  outer.append(inner);
  return outer;
}

function figures(said) {
  const latest = said.latest, accuracy = latest && latest.accuracy;
  const answered = said.people.filter((each) => each.n_answers).length;
  const listed = [
    [n(said.n_answers), `of ${n(said.n_wanted)} answers` + (said.n_known ? `, and ${n(said.n_known)} about known examples` : "")],
    [n(said.per_hour.at(-1)), "answers in the last hour"],
    [n(answered), answered === 1 ? "person answered" : "people answered"],
    [accuracy && accuracy.value != null ? percent(accuracy.value, 1) : "–",
      accuracy && accuracy.value != null ? `accuracy, ${percent(accuracy.interval[0])} to ${percent(accuracy.interval[1])}` : "accuracy, not known yet"],
  ];
  $("figures").replaceChildren(...listed.map(([value, about]) => {
    const box = make("div", undefined, "figure");
    box.append(make("b", value), make("span", about));
    return box;
  }));
}

function hours(counts) {
  const width = 360, height = 150, most = Math.max(...counts, 1);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height + 18}`, class: "chart", role: "img", "aria-label": "Answers per hour" });
  counts.forEach((each, place) => {
    const tall = each ? Math.max((each / most) * (height - 16), 2) : 0, step = width / counts.length;
    const bar = draw("rect", { x: place * step + 1.5, y: height - tall, width: step - 3, height: tall, rx: 2, class: "bar" });
    bar.append(draw("title", {}, `${counts.length - 1 - place} h ago: ${n(each)}`));
    svg.append(bar);
  });
  svg.append(draw("line", { x1: 0, x2: width, y1: height, y2: height, class: "grid" }), draw("text", { x: 0, y: height + 14 }, "24 h ago"), draw("text", { x: width, y: height + 14, "text-anchor": "end" }, "now"), draw("text", { x: 0, y: 10 }, `most: ${n(most)}`));
  $("hours").replaceChildren(svg);
}

function growth(points) {
  const usable = points.filter((each) => each.accuracy.interval);
  if (!usable.length) {
    $("growth").replaceChildren(make("p", "No model yet. A few hundred answers are a good start.", "note"));
    return;
  }
  const width = Math.max($("growth").clientWidth, 240), height = 220, left = 42, most = Math.max(...usable.map((each) => each.n_answers), 1);
  const x = (each) => left + (each.n_answers / most) * (width - left - 10), y = (value) => 8 + (1 - Math.min(Math.max(value, 0), 1)) * (height - 16);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height + 22}`, class: "chart", role: "img", "aria-label": "Accuracy by number of answers" });
  for (const level of [0, 0.25, 0.5, 0.75, 1]) svg.append(draw("line", { x1: left, x2: width, y1: y(level), y2: y(level), class: "grid" }), draw("text", { x: left - 6, y: y(level) + 4, "text-anchor": "end" }, percent(level)));
  const upper = usable.map((each) => `${x(each)},${y(each.accuracy.interval[1])}`), lower = usable.map((each) => `${x(each)},${y(each.accuracy.interval[0])}`).reverse();
  svg.append(draw("polygon", { points: [...upper, ...lower].join(" "), class: "band" }));
  const known = usable.filter((each) => each.accuracy.value != null);
  svg.append(draw("polyline", { points: known.map((each) => `${x(each)},${y(each.accuracy.value)}`).join(" "), class: "line" }));
  for (const each of usable) {
    svg.append(draw("line", { x1: x(each), x2: x(each), y1: y(each.accuracy.interval[0]), y2: y(each.accuracy.interval[1]), class: "line", opacity: 0.45 }));
    if (each.accuracy.value != null) svg.append(draw("circle", { cx: x(each), cy: y(each.accuracy.value), r: 4, class: "dot" }));
  }
  svg.append(draw("text", { x: width, y: height + 16, "text-anchor": "end" }, `${n(most)} answers`));
  $("growth").replaceChildren(svg);
}

function heat(names, values) {
  const table = make("table", undefined, "heat"), top = make("tr");
  top.append(make("th", ""), ...names.map((each) => make("th", each)));
  table.append(top);
  values.forEach((row, place) => {
    const line = make("tr");
    line.append(make("th", names[place]));
    row.forEach((value) => {
      const cell = make("td", value.toFixed(2));
      cell.style.background = `color-mix(in srgb, var(--accent) ${Math.round(70 * value)}%, transparent)`;
      line.append(cell);
    });
    table.append(line);
  });
  return table;
}

function people(said) {
  const latest = said.latest || {}, found = new Map((latest.people || []).map((each) => [each.name, each]));
  fill($("people"), ["Name", "Answers", "Don’t know", "Seconds", "Wrong on known examples", "Estimated wrong"], said.people.map((each) => {
    const model = found.get(each.name);
    return [
      each.name + (each.is_owner ? " (owner)" : ""), n(each.n_answers), n(each.n_unknown),
      each.seconds == null ? "–" : each.seconds.toFixed(1),
      each.n_known ? `${each.n_wrong} of ${each.n_known} (${percent(each.wrong[0])} to ${percent(each.wrong[1])})` : "–",
      model ? `${model.error_rate == null ? "unknown" : percent(model.error_rate, 1)} (${percent(model.interval[0])} to ${percent(model.interval[1])})` : "–",
    ];
  }));
  const agreement = latest.agreement;
  $("agreement").textContent = agreement && agreement.n_pairs
    ? `Agreement: of ${n(agreement.n_pairs)} pairs of answers by two people who could have said the same, ${percent(agreement.same)} are the same; ${percent(agreement.by_chance)} would be by chance. Two people may both be right and exclude different classes.`
    : said.n_wanted > said.n_items ? "Agreement is shown with the next model, once two people have answered about the same examples."
      : "Agreement is not known, because each example is asked once. Tasks that were started with --answers 2 show it.";
  const matrices = said.people.map((each) => found.get(each.name)).filter((each) => each && each.transition).slice(0, 12);
  $("matrices-card").hidden = !matrices.length;
  $("matrices").replaceChildren(...matrices.map((each) => {
    const box = make("div");
    box.append(make("h3", each.name), heat(latest.classes, each.transition));
    return box;
  }));
}

function suspects(said) {
  const listed = (said.latest && said.latest.suspects) || [];
  const key = JSON.stringify(listed.map((each) => each.id));
  $("suspects-card").hidden = !listed.length;
  if (key === shownSuspects) return;
  shownSuspects = key;
  selected.clear();
  $("suspects").replaceChildren(...listed.map((each) => {
    const box = make("label", undefined, "suspect");
    if (said.kind === "images") {
      const image = make("img");
      image.src = `/api/image/${each.item}`; image.alt = each.name; image.loading = "lazy";
      image.onload = () => image.classList.toggle("small", image.naturalWidth < 100);
      box.append(image);
    }
    const about = make("div", undefined, "about");
    if (each.cells) about.append(make("div", Object.values(each.cells).join(" · ").slice(0, 200), "snippet"));
    const mark = make("input");
    mark.type = "checkbox";
    mark.addEventListener("change", () => { if (mark.checked) selected.add(each.id); else selected.delete(each.id); $("reopen").disabled = !selected.size; });
    const words = { not: `not ${each.label}`, yes: `yes, ${each.label}`, no: `no, not ${each.label}` }[each.said];
    about.append(mark, ` ${each.person}: “${words}”`, make("br"), make("span", each.probability === null ? "" : `wrong with ${percent(each.probability)}`, "quiet"));
    box.append(about);
    return box;
  }));
  $("reopen").disabled = true;
}

function asked(said) {
  const by = said.asked_by, total = Object.values(by).reduce((sum, each) => sum + each, 0) || 1;
  fill($("asked"), ["Asked", "Answers", "", "Used for the accuracy"], [
    ["at random", n(by.random || 0), meter((by.random || 0) / total), "yes"],
    ["chosen by the model", n(by.model || 0), meter((by.model || 0) / total), "no: the model chooses hard examples"],
    ["known examples", n(by.known || 0), meter((by.known || 0) / total), "they show how people answer"],
  ]);
  $("next").textContent = said.latest
    ? `Of the examples that it may choose, the model asks first about those whose answers are expected to be most informative (${n(said.latest.n_ranked || 0)} ranked). The others stay in random order, so that the accuracy stays unbiased.`
    : "Questions come in random order. Once a model has been trained, it chooses the order of some of the examples. The others stay in random order, so that the accuracy stays unbiased.";
}

async function refresh() {
  try {
    const said = await call("/api/owner");
    $("banner").hidden = true;
    $("title").textContent = said.title || "naysay";
    figures(said); hours(said.per_hour); growth(said.growth); people(said); suspects(said); asked(said);
    const most = Math.max(...said.classes.map((each) => each.not + each.no + each.yes), 1);
    fill($("classes"), ["Class", "Shown", "“Not” it", "“Yes”", ""], said.classes.map((each) => [each.name, n(each.offered), n(each.not + each.no), n(each.yes), meter((each.not + each.no + each.yes) / most)]));
    $("others").textContent = `Don’t know: ${n(said.n_unknown)}. None of these: ${n(said.n_none)}.`;
    const latest = said.latest, accuracy = latest && latest.accuracy;
    $("accuracy").textContent = !latest ? "" : latest.explanation + (accuracy && accuracy.unknown ? ` It is unknown, because ${accuracy.unknown}.` : "");
    const state = said.learning;
    $("learn").disabled = state.runs;
    $("learning").textContent = state.runs ? "Learning, in a process of its own…" : state.problem || (latest ? `Learned from ${n(latest.n_answers)} answers.` : "");
    $("learning").classList.toggle("problem", Boolean(state.problem && !state.runs));
    wasRunning = state.runs;
  } catch (problem) {
    $("banner").textContent = whyNot(problem);
    $("banner").hidden = false;
  }
  setTimeout(refresh, wasRunning ? 1500 : 5000);
}

$("learn").addEventListener("click", async () => {
  $("learn").disabled = true;
  $("learning").textContent = "Learning, in a process of its own…";
  try { await call("/api/owner/learn", {}); wasRunning = true; } catch (problem) { $("learning").textContent = whyNot(problem); }
});
$("reopen").addEventListener("click", async () => {
  try {
    const said = await call("/api/owner/reopen", { ids: [...selected] });
    $("reopened").textContent = `${said.reopened} will be asked again.`;
    shownSuspects = "";
  } catch (problem) { $("reopened").textContent = whyNot(problem); }
});
$("invite").addEventListener("submit", async (event) => {
  event.preventDefault();
  const box = $("link");
  box.hidden = false;
  try {
    const said = await call("/api/owner/invite", { name: $("name").value });
    box.textContent = said.link;
    $("name").value = "";
    if (navigator.clipboard) await navigator.clipboard.writeText(said.link).catch(() => {});
  } catch (problem) { box.textContent = whyNot(problem); }
});
refresh();
