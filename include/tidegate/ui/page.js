// The page works without this file. It adds Airflow's theme and zone, a filter, and a refresh.
"use strict";

const root = document.documentElement;
const stored = (key) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is forbidden here
  }
};

function theme() {
  const chosen = stored("theme"); // Airflow's switch
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  else delete root.dataset.theme;
}

function zone() {
  try {
    const chosen = JSON.parse(stored("timezone") ?? "null") ?? undefined;
    new Intl.DateTimeFormat("en", { timeZone: chosen });
    return chosen;
  } catch {
    return stored("timezone") === "local" ? undefined : "UTC";
  }
}

// How far away a time is, in the words of the server: "3m 10s ago", "in 2h".
function human(seconds) {
  const far = Math.floor(Math.abs(seconds));
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, far < 60 ? " s" : "s"]];
  let rest = far, parts = [];
  for (const [size, name] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (parts.length || count || size === 1) parts.push(count || !parts.length ? count + name : "");
    if (parts.length === 2) break;
  }
  const text = parts.filter(Boolean).join(" ");
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function times() {
  const form = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
    second: "2-digit", timeZone: zone(), timeZoneName: "short",
  });
  for (const each of document.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime), exact = form.format(at);
    if ("exact" in each.dataset) {
      each.textContent = exact;
    } else {
      each.title = exact;
      each.textContent = human((at - Date.now()) / 1000);
    }
  }
}

function filter() {
  const field = document.getElementById("q");
  if (!field) return;
  const wanted = field.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("tr[data-name]")) {
    row.hidden = !row.dataset.name.includes(wanted);
  }
  const folded = document.getElementById("healthy");
  if (folded && wanted) folded.open = true;
}

function copying() {
  for (const each of document.querySelectorAll("button[data-copy]")) {
    each.hidden = !navigator.clipboard;
    each.onclick = async () => {
      await navigator.clipboard.writeText(each.dataset.copy);
      document.getElementById("said").textContent = "copied";
    };
  }
}

function ready() {
  theme();
  times();
  filter();
  copying();
  const field = document.getElementById("q");
  if (field) field.oninput = filter;
}

function said(text) {
  document.getElementById("said").textContent = text;
}

// How the part finds what has the focus again, when it has been replaced.
function selector(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  return href ? `a[href="${CSS.escape(href)}"]` : element.tagName.toLowerCase();
}

// Only the marked parts are replaced: what somebody has opened stays open, and keeps the focus.
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (answer.status === 401 || answer.status === 403) {
    document.querySelector("main").replaceWith(fresh.querySelector("main"));
    return;
  }
  if (!answer.ok || !fresh.querySelector("[data-live]")) throw new Error("another page");
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(part.id);
    const focus = part.contains(document.activeElement) && selector(document.activeElement);
    if (!now || (focus && document.activeElement.matches("input, select"))) continue;
    for (const details of part.querySelectorAll("details[open][id]")) {
      now.querySelector(`#${CSS.escape(details.id)}`)?.setAttribute("open", "");
    }
    part.replaceWith(now);
    if (focus) now.querySelector(focus)?.focus();
  }
  said("");
  ready();
}

async function tick() {
  try {
    await refresh();
  } catch {
    times(); // what is shown gets older
    said("This page could not be refreshed: what it shows is old.");
  }
}

theme();
addEventListener("storage", theme);
addEventListener("DOMContentLoaded", () => {
  ready();
  if (document.querySelector("[data-live]")) setInterval(tick, 15000);
});
