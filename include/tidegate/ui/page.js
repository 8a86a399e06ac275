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

function times() {
  const form = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
    second: "2-digit", timeZone: zone(), timeZoneName: "short",
  });
  for (const each of document.querySelectorAll("time[datetime]")) {
    const exact = form.format(new Date(each.dateTime));
    if ("exact" in each.dataset) each.textContent = exact;
    else each.title = exact;
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

// What somebody reads or types is not taken away: only the marked parts are replaced.
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok) {
    const old = document.querySelector("main"), now = fresh.querySelector("main");
    if (now) old.replaceWith(now);
    return;
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(part.id);
    if (!now || part.contains(document.activeElement)) continue;
    for (const details of part.querySelectorAll("details[open][id]")) {
      now.querySelector(`#${CSS.escape(details.id)}`)?.setAttribute("open", "");
    }
    if (part.tagName === "DETAILS" && part.open) now.open = true;
    part.replaceWith(now);
  }
  ready();
}

theme();
addEventListener("storage", theme);
addEventListener("DOMContentLoaded", () => {
  ready();
  setInterval(() => refresh().catch(() => undefined), 15000);
});
