// What both pages use.
"use strict";

const $ = (id) => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

// Call the server: get, or post a body. An error has the status, unless the server was not reached.
async function call(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body),
    headers: { "content-type": "application/json", "x-naysay": "1" },
  };
  const response = await fetch(path, { ...options, signal: AbortSignal.timeout(15000) });
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(said.error || `error ${response.status}`), { status: response.status });
  return said;
}
const whyNot = (problem) => problem && problem.status ? problem.message : "Offline: the server cannot be reached.";

if (location.search) history.replaceState(null, "", location.pathname); // the token is a cookie now
