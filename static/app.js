// What the console does where scripts run: pauses and backs off the refresh, keeps ticks, opens
// dialogs, listens to keys. Everything works without this file, only less comfortably.
"use strict";

const $ = (selector) => document.querySelector(selector);
const $$ = (selector) => [...document.querySelectorAll(selector)];
const panel = () => $("#panel");
const dialog = $("#dialog");
const help = $("#help");

// --- The refresh: paused by the reader, rare while nobody looks, and later after each failure ---

const WAITS = [5, 10, 20, 60];
const HIDDEN_WAIT = 60_000; // so that title and icon of a tab behind others stay right
// What the reader has set: never by itself, or so many seconds apart at the least.
const pace = document.documentElement.dataset.pace;
const refresh = {
  paused: (sessionStorage.getItem("paused") ?? (pace === "off" ? "1" : "0")) === "1",
  failures: 0, next: 0, clock: 0, at: Date.now(),
  heard: Date.now(), heardAt: $("#badge")?.dataset.clock, // of the verdict
  isOlder: false, // than what is shown: the last answer
  isHeld: false, // back from the page, for somebody reads the log: some answer
  refusal: null, // the notice of it, while polls are refused
};
const apart = () => (document.hidden ? HIDDEN_WAIT : (Number(pace) || 5) * 1000);

const isPoll = (ctx) => ctx.sourceElement?.id === "panel";
const isIdle = () =>
  refresh.paused || !navigator.onLine || dialog.open || Date.now() < refresh.next ||
  (document.hidden && Date.now() < refresh.at + HIDDEN_WAIT);
// The log would run away from under a reader: what is new is only counted until the top is in sight.
const isReadingLog = () => scrollY > 200 && panel()?.matches(".events[data-live]");

function showPause() {
  const button = $("#pause");
  if (!button) return;
  button.setAttribute("aria-pressed", refresh.paused);
  button.lastChild.textContent = refresh.paused ? "Frozen" : navigator.onLine ? "Live" : "Offline";
}

function togglePause() {
  refresh.paused = !refresh.paused;
  sessionStorage.setItem("paused", refresh.paused ? "1" : "0");
  showPause();
  if (!refresh.paused) refreshNow();
}

function refreshNow() {
  refresh.next = 0;
  if (panel()) htmx.trigger(panel(), "refresh");
}

// Each web process has readings of its own: what is shown never makes way for what was read before it,
// and is called stale when no newer is to be had. That nothing is known of now is news all the same.
function succeeded(holds, asOf, clock, verdict) {
  const shown = $("#as-of time");
  refresh.isOlder = Boolean(shown) && Date.parse(asOf) < Date.parse(shown.dateTime);
  if (verdict && (!refresh.isOlder || verdict.startsWith("unknown"))) {
    Object.assign(refresh, { heard: Date.now(), heardAt: clock });
    showVerdict(verdict);
  }
  if (refresh.failures) report("connection", "The connection is back.");
  refresh.refusal?.remove();
  const next = Number(pace) ? Date.now() + pace * 1000 - 500 : 0;
  Object.assign(refresh, { failures: 0, next, refusal: null });
  const isStale = refresh.isOlder && Date.now() + refresh.clock - Date.parse(asOf) > 3 * apart();
  if (!refresh.isOlder) refresh.clock = Date.parse(asOf) - Date.now();
  if (!shown) return;
  if (!refresh.isOlder && !holds) Object.assign(shown, { dateTime: asOf, textContent: clock });
  const why = holds ? "· waits while you read" : "";
  $("#as-of-note").textContent = isStale ? "· the last answer was older, so this stays" : why;
  showStale(isStale);
}

function showStale(isStale) {
  for (const part of [$("#as-of"), panel()]) part.toggleAttribute("data-stale", isStale);
}

// Once for all that are refused in a row: who may, in the server's own notice.
const REFUSALS = { 401: "signed out", 403: "not allowed any more", 404: "it is gone" };
function showRefusal(said) {
  const notice = new DOMParser().parseFromString(said, "text/html").querySelector(".notice");
  if (!notice || refresh.refusal) return;
  refresh.refusal = document.importNode(notice, true);
  $("#notice").replaceChildren(refresh.refusal);
}

function failed(status, retryAfter, said) {
  if (status === 304 || !panel()) return;
  const wait = Math.max(Number(retryAfter) || 0, WAITS[Math.min(refresh.failures, 3)]);
  const seconds = Math.round(wait * (0.9 + Math.random() * 0.2));
  refresh.next = Date.now() + seconds * 1000;
  if (!refresh.failures++) say($("#alarm"), "The last refresh failed. What is shown may be old.");
  const why = REFUSALS[status] ?? "no answer";
  if (status === 401 || status === 403) showRefusal(said);
  $("#as-of-note").textContent = `· ${why}, retrying in ${seconds} s`;
  showStale(true);
  // Nobody has looked for ten seconds and more: what the tab says of the queue is not known any more.
  if (refresh.failures > 1 && (!status || status >= 500)) showVerdict("unknown Unknown");
}

// A question that came to nothing: what was typed into it stands in the same one when it is asked again.
let givenUp = {};
function giveUp() {
  const form = dialog.querySelector("form");
  givenUp = { at: form?.action, reason: form?.elements.reason?.value };
  dialog.close();
}
function sayAgain() {
  const form = dialog.querySelector("form");
  const field = form?.elements.reason;
  if (form?.action === givenUp.at && field && !field.value) field.value = givenUp.reason ?? "";
}

// The question of an operation: the button that had the focus goes with it.
let answered = false;
let actedAt = -Infinity;

document.addEventListener("htmx:config:request", (event) => {
  const { ctx } = event.detail;
  if (ctx.sourceElement?.id === "begin") answered = true;
  // Another web process may have read what it shows a moment before.
  if (Date.now() < actedAt + 2000) ctx.request.headers["Queue-Acted"] = "1";
  ctx.isUnsent = !navigator.onLine; // if it fails at all: without a network this machine itself may answer
  if (!isPoll(ctx)) return;
  if (ctx.sourceEvent?.type === "every" && isIdle()) return event.preventDefault();
  refresh.at = Date.now();
  ctx.request.timeout = 8000;
  // By itself a page may take what was read for another tab a moment ago.
  if (ctx.sourceEvent?.type === "every") ctx.request.headers["Queue-Timer"] = "1";
  // The mark is that of the last answer: if it was not taken, what is shown has another.
  if (refresh.isOlder || (refresh.isHeld && !holdsBack(ctx))) delete ctx.request.headers["HX-PTag"];
  if (isBusyInRows()) ctx.request.body.set("upto", firstShownId());
});
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const { status, headers } = ctx.response ?? {};
  if (ctx.request.method === "POST" && status < 400 && ctx.sourceElement?.closest("dialog")) actedAt = Date.now();
  // What one's own act came to is shown as well: no poll may bring back what was read before it.
  if (!isPoll(ctx) && !(status < 400 && headers.has("Queue-As-Of"))) return;
  if (isPoll(ctx) && status < 400) showReadOnly(headers.get("Queue-Read-Only") ?? "");
  if (status < 400) succeeded(holdsBack(ctx), ...["Queue-As-Of", "Queue-Clock", "Queue-Verdict"].map((name) => headers.get(name)));
  else failed(status, headers.get("Retry-After"), ctx.text);
});
// A panel that could not be had, or is older, stays as it was; no notice for each failed poll.
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (isPoll(ctx) && (ctx.response.status >= 400 || refresh.isOlder)) return event.preventDefault();
  if (isPoll(ctx) && holdsBack(ctx)) {
    countNew(ctx.text);
    return event.preventDefault();
  }
  if (ctx.target?.id !== "panel") return;
  refresh.isHeld = false;
  noteFocus();
});
const holdsBack = (ctx) => ctx.sourceEvent?.type === "every" && isReadingLog();
function countNew(text) {
  refresh.isHeld = true;
  const lines = new DOMParser().parseFromString(text, "text/html").querySelectorAll("tr.event-row");
  const fresh = [...lines].filter((line) => !document.getElementById(line.id)).length;
  const button = $("#newer");
  if (!button || !fresh) return;
  button.firstChild.textContent = `${fresh}${fresh === lines.length ? " or more" : ""} new – show`;
  if (button.hidden) report("log", "There are new events.");
  button.hidden = false;
}
document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (ctx && isPoll(ctx)) return failed(0);
  const said = document.createElement("p");
  const why = ctx?.isUnsent ? "This browser is offline: nothing was sent." : "There was no answer. Look again before you try again.";
  Object.assign(said, { className: "notice", role: "alert", textContent: why });
  said.dataset.tone = "bad";
  // What was not sent can be sent again as it stands.
  const form = ctx?.isUnsent && dialog.contains(ctx.sourceElement) && dialog.querySelector("form");
  if (!form) $("#notice").replaceChildren(said);
  else if (!$("#unsent")) form.prepend(Object.assign(said, { id: "unsent" }));
  if (dialog.open && !form) giveUp();
});
// A refusal is a notice on the page, so the dialog makes way for it; a form that comes back stays.
const isForm = (ctx) => ctx.response?.headers.has("Queue-Form");
document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  if (!dialog.contains(ctx.sourceElement) || isForm(ctx)) return;
  // To the sign-in, which says that nothing was done: a refresh would lead there without a word of it.
  if (ctx.response.headers.has("HX-Redirect")) return;
  giveUp();
  refreshNow();
});
document.addEventListener("visibilitychange", () => document.hidden || refresh.paused || refreshNow());
addEventListener("online", () => {
  showPause();
  $("#unsent")?.remove();
  refresh.paused || refreshNow();
});
// Without a network nothing is asked: a failure that is known before the first one.
addEventListener("offline", () => {
  showPause();
  if (refresh.paused || !panel()?.matches("[hx-trigger^=every]")) return;
  if (!refresh.failures++) say($("#alarm"), "There is no network. What is shown may be old.");
  $("#as-of-note").textContent = "· offline, goes on with the network";
  showStale(true);
});
addEventListener("scrollend", () => {
  if (!panel()?.matches(".events[data-live]") || refresh.failures) return;
  $("#as-of-note").textContent = isReadingLog() ? "· waits while you read" : "";
  if (!isReadingLog() && !refresh.paused) refreshNow();
});

// The verdict, on every page and also while nothing is new: in the badge, the title and the icon.
function showVerdict(told) {
  const [, level, title] = told?.match(/^(\w+) (.+)$/) ?? [];
  const badge = level && $(`#badge:not([data-told="${told}"])`);
  if (!badge) return;
  Object.assign(badge.dataset, { level, told });
  report("queue", `The queue: ${(badge.lastChild.textContent = title)}.`);
  $("#icon").href = $("#icon").dataset[level];
  const mark = level === "green" ? "" : `● ${title.toUpperCase()} · `;
  document.title = mark + document.title.replace(/^● [^·]+ · /, "");
}

// A database may begin or cease to take writes while the page is open: its panel follows, and so does this.
function showReadOnly(why) {
  $("#read-only").hidden = !why;
  $("#read-only span").textContent = why;
}

// Nobody has looked for three intervals: frozen, offline, or a page that does not ask again.
function ageVerdict() {
  const badge = $("#badge");
  if (!badge || badge.dataset.level === "unknown" || Date.now() < refresh.heard + 3 * apart()) return;
  showVerdict(`unknown ${badge.lastChild.textContent} at ${refresh.heardAt?.slice(0, 5)}`);
  if (panel()?.hasAttribute("hx-trigger")) showStale(true);
}

// --- Ages go on between refreshes, by the database's clock ---

function elapsed(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const place = units.findIndex(([, length]) => seconds >= length);
  if (place < 0 || place === 3) return `${Math.max(0, Math.floor(seconds))} s`;
  const [[unit, length], [smaller, below]] = [units[place], units[place + 1]];
  const rest = Math.floor((seconds % length) / below);
  return `${Math.floor(seconds / length)} ${unit} ${rest} ${smaller}`;
}

function tellAges() {
  if (refresh.paused || refresh.failures || document.hidden) return;
  for (const time of $$("time[data-age]")) {
    const text = elapsed(Math.abs(Date.now() + refresh.clock - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// What comes in one moment is said together: of two texts, one on the other, the first is never heard.
const unsaid = new Map();
function say(region, text) {
  const before = unsaid.get(region);
  if (before) return before.includes(text) || before.push(text);
  unsaid.set(region, [text]);
  region.textContent = "";
  setTimeout(() => {
    region.textContent = unsaid.get(region).join(" ");
    unsaid.delete(region);
  }, 50);
}

// What comes by itself is told every ten seconds at the most, of each matter the latest; what comes of
// one's own act is said at once.
const REPORTS_APART = 10_000;
const unreported = new Map();
let reportedAt = -Infinity;
function report(matter, text) {
  const waits = unreported.size > 0;
  unreported.delete(matter);
  unreported.set(matter, text);
  if (!waits) setTimeout(reportAll, Math.max(0, reportedAt + REPORTS_APART - Date.now()));
}
function reportAll() {
  reportedAt = Date.now();
  for (const text of unreported.values()) say($("#live"), text);
  unreported.clear();
}

// An operation that is over goes on telling of its jobs; that it is over is said once.
let saidOver = "";
function sayOver(text, isPolled) {
  if (text !== saidOver) isPolled ? report("operation", text) : say($("#live"), text);
  saidOver = text;
}

// --- Ticks: kept by id, whatever the refresh does to the rows ---

const ticked = new Set();
let lastTick = null;
const boxes = () => $$('#ticked input[name="id"]');
const firstShownId = () => boxes()[0]?.value;
// Rows must not move under the reader: newer ones are then only counted.
const isBusyInRows = () =>
  panel().matches(".jobs[data-live]") && !location.search.includes("before=") && firstShownId() &&
  (ticked.size || scrollY > 200 || $("#ticked tbody")?.contains(document.activeElement));

function showTicks() {
  const bar = $("#ticked-count");
  if (!bar) return;
  for (const box of boxes()) box.checked = ticked.has(box.value);
  const here = boxes().filter((box) => box.checked).length;
  const gone = ticked.size - here;
  bar.textContent = ticked.size ? `${here} ticked${gone ? `, ${gone} have moved on` : ""}:` : "";
  for (const button of $$("#ticked [name=verb]")) button.disabled = !here;
  const all = $("[data-tick-page]");
  all.checked = here > 0 && here === boxes().length;
  all.indeterminate = here > 0 && !all.checked;
}

function tick(box, on, range) {
  const all = boxes();
  const from = range && lastTick ? all.findIndex((other) => other.value === lastTick) : -1;
  const to = all.indexOf(box);
  const chosen = from < 0 ? [box] : all.slice(Math.min(from, to), Math.max(from, to) + 1);
  for (const one of chosen) on ? ticked.add(one.value) : ticked.delete(one.value);
  lastTick = box.value;
  showTicks();
}

document.addEventListener("click", (event) => {
  const box = event.target.closest('#ticked input[name="id"]');
  if (box) return tick(box, box.checked, event.shiftKey);
  if (event.target.matches("[data-tick-page]")) {
    for (const one of boxes()) event.target.checked ? ticked.add(one.value) : ticked.delete(one.value);
    return showTicks();
  }
  if (event.target.closest("[data-show-newer]")) {
    event.preventDefault();
    document.activeElement.blur();
    scrollTo(0, 0);
    ticked.clear();
    return refreshNow();
  }
  const source = event.target.closest("[data-copy], [data-copy-link]");
  if (source) return "copyLink" in source.dataset ? copyLink() : copy(source.dataset.copy, source.dataset.what);
  if (event.target.closest("dialog [data-close]")) {
    event.preventDefault();
    dialog.close();
  }
});

// The filter itself is not drawn anew: its fields are marked by what the list says of them.
function markFilter(filter) {
  for (const field of filter.querySelectorAll("input, select")) {
    const said = document.getElementById(`problem-${field.name}`);
    const about = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && !id.startsWith("problem-"));
    if (said) about.unshift(said.id);
    said ? field.setAttribute("aria-invalid", "true") : field.removeAttribute("aria-invalid");
    about.length ? field.setAttribute("aria-describedby", about.join(" ")) : field.removeAttribute("aria-describedby");
  }
}

// --- After each swap: dialogs, ticks, ages; a new filter forgets the ticks of the old one ---

document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (ctx.target?.id === "dialog-body" && ctx.response.status < 400) {
    sayAgain();
    if (!dialog.open) dialog.showModal();
  }
  if (ctx.sourceElement?.id === "filter") {
    ticked.clear();
    markFilter(ctx.sourceElement);
    document.activeElement?.id || say($("#live"), "The list is filtered.");
  }
  if (answered && !$("#begin")) {
    answered = false;
    $("#operation-title")?.focus();
  }
  if (ctx.target?.id === "panel") keepFocus();
  if (isForm(ctx)) (dialog.open ? dialog : document).querySelector('[aria-invalid="true"]')?.focus();
  if (panel()?.matches(".operation[data-over]")) sayOver($("#operation-title").textContent, isPoll(ctx));
  showTicks();
  tellAges();
});
document.addEventListener("queue:changed", () => {
  givenUp = {};
  dialog.close();
  ticked.clear();
  say($("#live"), $("#notice").textContent.trim());
  refreshNow();
});

// --- The theme: kept in a cookie, so that the next page is drawn right from the start ---

const THEMES = ["auto", "light", "dark"];
const theme = () => document.documentElement.dataset.theme || "auto";

const showTheme = () => ($("#theme-name").textContent = theme()[0].toUpperCase() + theme().slice(1));

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % 3];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  document.cookie = `theme=${next}; path=/; max-age=31536000; samesite=lax`;
  showTheme();
}

// --- Keys: single ones, off while typing and wherever the reader has turned them off ---

// Not those behind a summary that is shut.
const rows = () => $$("#panel tbody tr[id]").filter((row) => row.checkVisibility());
let [current, pendingG] = [null, 0]; // current: the row's id, for the row may be replaced

function move(step) {
  const all = rows();
  const place = all.findIndex((row) => row.id === current);
  const next = all[Math.min(Math.max(place + step, 0), all.length - 1)];
  if (next) stand(next);
}

function stand(row) {
  for (const other of rows()) delete other.dataset.current;
  row.dataset.current = "";
  current = row.id;
  const target = row.querySelector("a.id") ?? row.querySelector("a, input");
  target?.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

// What had the focus may go with a refresh, most of all after its own verb: then the row that takes
// its place has it, and where there is none the page, but never the top of the window.
let left = null;
function noteFocus() {
  const at = document.activeElement;
  const row = at.closest("tr[id]");
  left = panel()?.contains(at) ? { row: row?.id, place: rows().indexOf(row) } : null;
}
function keepFocus() {
  if (!left || document.activeElement !== document.body) return;
  const all = left.row ? rows() : [];
  const next = all.find((row) => row.id === left.row) ?? all[Math.min(left.place, all.length - 1)];
  next ? stand(next) : $("#main").focus({ preventScroll: true });
}

const inRow = (selector) => document.getElementById(current ?? "")?.querySelector(selector);
// Of the ticked jobs by the button of their bar, else of the row or the page.
function verb(name) {
  const one = inRow(`a[data-verb=${name}]`) || $(`:is(.job__verbs, #group-verbs) [data-verb=${name}]`);
  const many = $(`#ticked [name=verb][value=${name}]`);
  if (!ticked.size && one) return one.click();
  if (ticked.size && many && !many.disabled) return many.click();
  if (many) tell(ticked.size ? "The ticked jobs are no longer on this page: Shift+R shows what is there now." :
    inRow("a.id") ? `This job cannot be moved so as it stands: no ${name} is offered in its row.` :
    `Nothing to ${name}: tick jobs (x), or go to a row (j, k) first.`, "careful");
}
const go = (selector) => $(selector)?.click();
// A time that is so long ago would be another one for whoever opens the link later.
const AGO = /^-(\d{1,5})([smhd])$/;
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };
function fixedLink() {
  const link = new URL(location.href);
  for (const name of ["since", "until"]) {
    const [, number, unit] = link.searchParams.get(name)?.match(AGO) ?? [];
    if (number) link.searchParams.set(name, new Date(Date.now() + refresh.clock - number * SECONDS[unit] * 1000).toISOString());
  }
  return link.href;
}
async function copy(text, what) {
  let said = `${what} is copied.`;
  // Browsers let pages copy over https and on this machine only.
  try { await navigator.clipboard.writeText(text); } catch { said = `This browser lets no page copy here: ${text}`; }
  const shown = tell(said, "good");
  if (said.endsWith("is copied.")) setTimeout(() => shown.remove(), 5000);
}
function tell(text, tone) {
  say($("#live"), text);
  const shown = document.createElement("p");
  Object.assign(shown, { className: "notice", textContent: text });
  shown.dataset.tone = tone;
  $("#notice").replaceChildren(shown);
  return shown;
}
const copyLink = () => copy(fixedLink(), "The link");
// A button of the filter that leads to a page of its own, with what was typed: nothing for htmx.
document.addEventListener("submit", (event) => {
  if (event.submitter?.matches("[data-leaves]")) event.stopPropagation();
}, true);
// Half a time or half a value is no question yet: these fields wait until they are left.
document.addEventListener("input", (event) => {
  if (event.target.closest("[data-whole]")) event.stopPropagation();
}, true);
const KEYS = {
  "?": () => help.showModal(),
  "/": () => $("#jump")?.focus(),
  f: () => $("#filter input:not([type=hidden]), #filter select")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  x: (event) => { const box = inRow("input[name=id]"); if (box) tick(box, !box.checked, event.shiftKey); },
  a: () => go("[data-tick-page]"),
  r: () => verb("retry"),
  c: () => verb("cancel"),
  ".": togglePause,
  R: refreshNow,
  "[": () => go(".pager [rel=prev]"),
  "]": () => go(".pager [rel=next]"),
  y: copyLink,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem("keys") === "off") return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea") || $("dialog[open]")) {
    // Out of the field, back to the single keys.
    if (event.key === "Escape" && !$("dialog[open]")) event.target.blur();
    return;
  }
  const place = Date.now() - pendingG < 1000 && $(`[data-key="${CSS.escape(event.key)}"]`);
  pendingG = event.key === "g" ? Date.now() : 0;
  if (place) return place.click();
  const act = KEYS[event.key] ?? (event.key === "X" ? KEYS.x : null);
  if (!act) return;
  event.preventDefault();
  act(event);
});

// --- Beginning ---

document.documentElement.dataset.scripts = ""; // shows what only they can do

for (const id of ["#pause", "#theme", "#help-button", "#own-zone"]) if ($(id)) $(id).hidden = false;
$("#pause")?.addEventListener("click", togglePause);
$("#theme").addEventListener("click", nextTheme);
$("#help-button").addEventListener("click", () => help.showModal());
$("#own-zone")?.addEventListener("click", () => ($("#zone").value = Intl.DateTimeFormat().resolvedOptions().timeZone));
$("#keys-on").checked = localStorage.getItem("keys") !== "off";
$("#keys-on").addEventListener("change", ({ target }) => localStorage.setItem("keys", target.checked ? "on" : "off"));
if ($("#as-of time")) refresh.clock = Date.parse($("#as-of time").dateTime) - Date.now();
// What an action came to has been said; a reload must not say it again.
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}
for (const show of [showPause, showTheme, showTicks]) show();
setInterval(() => (ageVerdict(), tellAges()), 1000);
