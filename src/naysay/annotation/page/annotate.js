// One question after the other. An answer is shown as given at once, kept in this browser until the
// server has saved it, and sent again until it has: the server saves each answer once.
"use strict";

const OPTION_KEYS = "123456789qwertyiopasdfghjkcvbm";
const newId = () => {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
};
const load = (store, key) => { try { return JSON.parse(store.getItem(key)) || []; } catch { return []; } };

let task = null, person = null, progress = { mine: 0, all: 0, items: 0, wanted: 0 };
let waiting = [];        // questions fetched ahead, the first is shown
let outbox = [];         // what the server has not saved yet
let given = [];          // answers that can be undone, the latest last
let shownAt = 0, hiddenFor = 0, hiddenSince = null;
let sending = false, retry = null, delay = 500, isOffline = false, poll = null;
const preloaded = new Map();

// What is kept in this browser.

const keyOf = (what) => `naysay:${task ? task.title : ""}:${person ? person.name : ""}:${what}`;
function keep() {
  localStorage.setItem(keyOf("outbox"), JSON.stringify(outbox));
  sessionStorage.setItem(keyOf("given"), JSON.stringify(given.slice(-50)));
}

// Talking to the server.

async function start() {
  try {
    const said = await call("/api/next");
    task = said.task; person = said.person; progress = said.progress;
    outbox = load(localStorage, keyOf("outbox"));
    given = load(sessionStorage, keyOf("given"));
    document.title = task.title ? `${task.title} · naysay` : "naysay";
    $("title").textContent = task.title || "naysay";
    $("person").textContent = person.name;
    $("owner").hidden = !person.is_owner;
    $("to-overview").hidden = !person.is_owner;
    $("options").style.setProperty("--rows", Math.ceil(task.n_offered / 2));
    progress.mine += outbox.filter((each) => each.path === "/api/answer").length;
    online();
    take(said.questions);
    show();
    guardBack();
    send();
  } catch (problem) {
    if (problem.status === 403) { location.reload(); return; }
    offline(problem);
    setTimeout(start, 2000);
  }
}

function take(questions) {
  const pending = new Set(outbox.filter((each) => each.body.deal).map((each) => each.body.deal));
  const have = new Set(waiting.map((each) => each.deal));
  for (const each of questions) {
    if (!pending.has(each.deal) && !have.has(each.deal)) waiting.push(each);
  }
  waiting.forEach(preload);
}

function preload(question) {
  if (task.kind !== "images" || preloaded.has(question.item)) return;
  const image = new Image();
  image.decoding = "async";
  image.src = `/api/image/${question.item}`;
  preloaded.set(question.item, image);
  if (preloaded.size > 60) preloaded.delete(preloaded.keys().next().value);
}

async function fetchMore() {
  try {
    const said = await call("/api/next");
    const wasEmpty = !waiting.length;
    progress = said.progress;
    progress.mine += outbox.filter((each) => each.path === "/api/answer").length;
    online();
    take(said.questions);
    if (wasEmpty) show(); else count();
  } catch (problem) { offline(problem); }
}

async function send() {
  if (sending) return;
  sending = true;
  clearTimeout(retry);
  while (outbox.length) {
    const next = outbox[0];
    try {
      const want = next.path === "/api/answer" && waiting.length < task.ahead - 3 ? task.ahead + outbox.length : 0;
      const said = await call(next.path, { ...next.body, want });
      done(next);
      online();
      delay = 500;
      if (said.status === "taken") say("Others answered this one in the meantime.");
      if (said.questions) { const wasEmpty = !waiting.length; take(said.questions); if (wasEmpty && waiting.length) show(); }
    } catch (problem) {
      if (problem.status === 400 || problem.status === 404) { done(next); say(problem.message); continue; }
      if (problem.status === 403) { offline({ message: "You are signed out: open your link again." }); break; }
      offline(problem);
      retry = setTimeout(send, delay);
      delay = Math.min(delay * 2, 8000);
      break;
    }
  }
  sending = false;
  if (!outbox.length && !waiting.length) fetchMore();
}

function done(sent) { outbox = outbox.filter((each) => each !== sent); keep(); if (isOffline) offline(); }

function offline(problem) {
  isOffline = true;
  const n = outbox.length;
  const kept = n ? ` ${n} answer${n > 1 ? "s are" : " is"} kept here and sent as soon as it is back.` : "";
  $("banner").textContent = whyNot(problem) + kept;
  $("banner").hidden = false;
}
function online() { isOffline = false; $("banner").hidden = true; }

// Showing a question.

function show() {
  clearTimeout(poll);
  const question = waiting[0];
  const isDone = !question;
  document.body.classList.toggle("is-done", isDone);
  $("done").hidden = !isDone;
  $("example").hidden = $("ask").hidden = isDone;
  $("back").hidden = !given.length;
  count();
  if (isDone) {
    $("thanks").textContent = progress.mine
      ? `Thank you! You gave ${progress.mine.toLocaleString()} answer${progress.mine === 1 ? "" : "s"}.`
      : "Others may still be answering the last questions.";
    poll = setTimeout(fetchMore, 15000);
    return;
  }
  showExample(question);
  const isYesNo = question.question === "yes-no";
  const heading = $("question");
  heading.replaceChildren();
  const sentence = make("span");
  if (isYesNo) {
    sentence.append("Is it ", make("b", `“${task.classes[question.offered[0]]}”`), "?");
  } else if (question.question === "in order") {
    sentence.append("Which is the ", make("b", "first"), " of these that it is ", make("em", "not"), "?");
  } else {
    sentence.append("Which of these is it ", make("em", "not"), "?");
  }
  heading.append(sentence);
  const choices = isYesNo
    ? [["Yes", "y", "yes"], ["No", "n", "no"]]
    : question.offered.map((each, place) => [task.classes[each], OPTION_KEYS[place], "not", each]);
  $("options").className = isYesNo ? "yes-no" : "";
  $("options").replaceChildren(...choices.map(([name, key, said, label]) => {
    const button = make("button");
    button.type = "button";
    button.dataset.key = key;
    button.append(make("kbd", key.toUpperCase()), make("span", name, name.length > 28 ? "long" : ""));
    button.title = name;
    button.addEventListener("click", () => answer(said, label));
    const before = question.before;
    if (before && before.said === said && before.label === label) button.classList.add("before");
    return button;
  }));
  $("none").hidden = !task.none_of_these || isYesNo;
  $("undo").disabled = !given.length;
  $("options").scrollTop = 0;
  shownAt = performance.now(); hiddenFor = 0; hiddenSince = document.hidden ? shownAt : null;
}

function showExample(question) {
  const stage = $("stage");
  stage.classList.remove("zoomed");
  stage.scrollTop = 0;
  $("zoom").hidden = task.kind !== "images";
  if (task.kind === "images") {
    preload(question);
    const image = preloaded.get(question.item);
    image.alt = `Example ${question.name}`;
    image.onload = () => image.classList.toggle("small", image.naturalWidth < 100);
    if (image.complete && image.naturalWidth) image.onload();
    image.onerror = () => {
      $("zoom").hidden = true;
      stage.replaceChildren(make("div", "This image cannot be shown. Choose “Don’t know”.", "broken"));
    };
    if (image.complete && !image.naturalWidth) image.onerror(); else stage.replaceChildren(image);
    return;
  }
  const cells = Object.entries(question.cells || {}).filter(([, value]) => value !== null && value !== "");
  if (task.kind === "texts" || (cells.length === 1 && typeof cells[0][1] === "string")) {
    stage.replaceChildren(make("div", String(cells.length ? cells[0][1] : ""), "prose"));
    return;
  }
  const list = make("dl", undefined, "cells");
  for (const [name, value] of cells) {
    const shown = typeof value === "number" && !Number.isInteger(value) ? String(+value.toPrecision(6)) : String(value);
    list.append(make("dt", name), make("dd", shown));
  }
  stage.replaceChildren(list);
}

function count() {
  const all = Math.min(Math.max(progress.all, progress.mine), progress.wanted), mine = progress.mine;
  const isShared = all > mine || progress.wanted !== progress.items;
  $("mine").textContent = isShared ? `${mine.toLocaleString()} by you ·` : "";
  $("count").textContent = `${all.toLocaleString()} of ${progress.wanted.toLocaleString()}`;
  const width = 100 * (progress.wanted ? all / progress.wanted : 0);
  $("bar").firstElementChild.style.width = `${width}%`;
  $("bar").setAttribute("aria-valuenow", Math.round(width));
}

function say(text) { $("status").textContent = text; }
function zoom() {
  const stage = $("stage");
  if (task.kind !== "images" || !waiting.length) return;
  if (stage.classList.toggle("zoomed")) {
    stage.scrollLeft = (stage.scrollWidth - stage.clientWidth) / 2;
    stage.scrollTop = (stage.scrollHeight - stage.clientHeight) / 2;
    stage.focus();
  }
}

// What a person does.

function seconds() {
  const now = performance.now();
  const hidden = hiddenFor + (hiddenSince === null ? 0 : now - hiddenSince);
  return Math.max(Math.round(now - shownAt - hidden), 0) / 1000;
}

function answer(said, label) {
  const question = waiting[0];
  if (!question) return;
  waiting.shift();
  const body = { id: newId(), deal: question.deal, said, label, seconds: seconds() };
  outbox.push({ path: "/api/answer", body });
  given.push({ id: body.id, question: { ...question, before: { said, label } } });
  progress.mine += 1; progress.all += 1;
  keep();
  const words = { not: `Not ${task.classes[label]}.`, yes: `Yes, ${task.classes[question.offered[0]]}.`, no: `No, not ${task.classes[question.offered[0]]}.`, none: "None of these.", unknown: "Don’t know." };
  guardBack();
  show();
  say(words[said]);
  send();
}

function undo() {
  const last = given.pop();
  if (!last) return;
  const unsent = outbox.findIndex((each) => each.body.id === last.id);
  if (unsent > 0 || (unsent === 0 && !sending)) outbox.splice(unsent, 1);
  else outbox.push({ path: "/api/undo", body: { id: last.id } });
  waiting = [last.question, ...waiting.filter((each) => each.deal !== last.question.deal)];
  progress.mine = Math.max(progress.mine - 1, 0); progress.all = Math.max(progress.all - 1, 0);
  keep();
  show();
  say("Undone: please answer again.");
  send();
}

function later() {
  const question = waiting.shift();
  if (!question) return;
  outbox.push({ path: "/api/later", body: { deal: question.deal } });
  keep();
  show();
  say("Put off: it comes again at the end.");
  send();
}

const hasNone = () => task.none_of_these && waiting[0] && waiting[0].question !== "yes-no";
document.addEventListener("keydown", (event) => {
  if (!task || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  const option = [...$("options").children].find((each) => each.dataset.key === key);
  if (key === "u" || key === "backspace" || key === "arrowleft") undo();
  else if (!waiting.length) return;
  else if (option) option.click();
  else if (key === "0") answer("unknown");
  else if (key === "l") later();
  else if (key === "z") zoom();
  else if (key === "n" && hasNone()) answer("none");
  else if (key === "escape") $("stage").classList.remove("zoomed");
  else return;
  event.preventDefault();
});
$("unknown").addEventListener("click", () => answer("unknown"));
$("none").addEventListener("click", () => answer("none"));
$("later").addEventListener("click", later);
$("undo").addEventListener("click", () => undo());
$("back").addEventListener("click", () => undo());
$("zoom").addEventListener("click", zoom);
$("stage").addEventListener("click", (event) => { if (event.target.tagName === "IMG") zoom(); });
// The back button of the browser undoes, as long as there is something to undo.
function guardBack() { if (given.length && !history.state) history.pushState({ guard: true }, ""); }
window.addEventListener("popstate", () => { undo(); guardBack(); });
window.addEventListener("online", () => { delay = 500; send(); });
window.addEventListener("offline", () => offline());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) hiddenSince = performance.now();
  else if (hiddenSince !== null) { hiddenFor += performance.now() - hiddenSince; hiddenSince = null; }
});
start();
