// @ts-check
// The page of `phasegate web`. Everything that it shows was written by agents, so that it is only ever put in as
// text: there is no HTML from strings here.

/**
 * @typedef {{run: string, group: string, phase: string, standing: string, told?: string, last?: string, seq: number}} Row
 * @typedef {{project?: string, gates: string[], runs: Row[], problems: string[], openings: string[], faults: {at: string, what: string}[]}} Overview
 * @typedef {{what: string, used: number, limit?: number}} Limit
 * @typedef {{id: string, kind: string, name: string, status: string, started: string, seconds?: number, micro_dollars?: number, end?: string, tree?: string, verdict?: string, file?: string, tail?: string}} Job
 * @typedef {{run: string, about?: string, phase: string, phase_about?: string, condition: string, standing: string, remarks: string[], document: string, owner?: {session: string, seen: string}, seq: number, picture?: string, limits: Limit[], jobs: Job[], tampered: string[], acts: Act[]}} Run
 * @typedef {{name: string, about: string, kind: string, choices?: string[], needed?: boolean}} Field
 * @typedef {{act: string, about: string, fields: Field[]}} Act
 * @typedef {{text: string, held: boolean, reads?: [string, string][]}} Part
 * @typedef {{rule: string, line: number, element?: string, held: boolean, parts?: Part[]}} Tried
 * @typedef {{seq: number, at: string, event: {name: string, actor: string, agent?: string}, from: string, to: string, answer: {decision: string, outcome?: string, reason?: string, message?: string}, moves?: {of: string, from: string, to: string, by: string}[], trace?: {tried?: Tried[], more?: number}, evidence?: {query: string, answer: string, digest?: string}[], notes?: string[]}} Line
 */

const GROUPS = ["needs you", "stuck", "broken", "working", "waiting", "ended"];
/** A pause of this many minutes is shown as one. */
const GAP = 10;
/** How many of the runs that are over are listed. */
const MAX_ENDED = 50;

const token = takeToken();
/** @type {Overview | undefined} */
let overview;
/** @type {Run | undefined} */
let run;
/** @type {Line[]} newest first */
let lines = [];
let chosen = "";
/** The line whose why is shown; the newest decision where none was chosen. @type {number | undefined} */
let chosenLine;
let chosenJob = "";
/** The form of an act stays while the rest of the page is drawn anew. @type {{run: string, form: HTMLElement} | undefined} */
let acting;
let hasMore = false;
let health = "";
/** @type {AbortController | undefined} */
let stream;

/** Takes the token out of the address, so that it is not in the history, and keeps it for this tab. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? sessionStorage.getItem("token") ?? "";
}

/**
 * An element with attributes and children; strings become text, never HTML.
 * @param {string} name
 * @param {Record<string, string | (() => void)>} attributes
 * @param {(Node | string | undefined)[]} children
 */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

/** @param {string} id */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/** @param {string} path @param {AbortSignal} [signal] */
function ask(path, signal) {
  return fetch(path, { headers: { Authorization: `Bearer ${token}` }, signal });
}

/** @param {string} path */
async function json(path) {
  const response = await ask(path);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? response.statusText);
  return value;
}

/** @param {string} state @param {boolean} away */
function connected(state, away) {
  const place = byId("connection");
  place.textContent = state;
  place.className = away ? "away" : "";
}

/** Listens until the page looks at another run; after a break it goes on behind the last line that it has. */
async function listen() {
  stream?.abort();
  const mine = (stream = new AbortController());
  while (!mine.signal.aborted) {
    try {
      const since = lines.length ? `&since=${lines[0].seq}` : "";
      const about = chosen ? `?run=${encodeURIComponent(chosen)}${since}` : "";
      const response = await ask(`/api/live${about}`, mine.signal);
      if (response.status === 401) {
        connected("The token is missing or old: open the address that `phasegate web` has printed.", true);
        return;
      }
      if (!response.ok || !response.body) throw new Error(response.statusText);
      connected("live", false);
      await read(/** @type {ReadableStream<BufferSource>} */ (response.body), mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
    }
    connected("The server is away. Trying again …", true);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** @param {ReadableStream<BufferSource>} body @param {AbortSignal} signal */
async function read(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!signal.aborted) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) hear(event);
    if (events.length) draw();
  }
}

/** @param {string} event */
function hear(event) {
  const name = /^event: (.*)$/m.exec(event)?.[1];
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (!name || !data) return;
  const value = JSON.parse(data);
  if (name === "overview") overview = value;
  if (name === "run" && value.run === chosen) run = value;
  if (name === "line" && (!lines.length || value.seq > lines[0].seq)) lines.unshift(value);
}

/** @param {string} name */
async function choose(name) {
  chosen = name;
  run = undefined;
  lines = [];
  chosenLine = undefined;
  chosenJob = "";
  health = "";
  location.hash = name;
  try {
    const [details, log] = await Promise.all([
      json(`/api/run?run=${encodeURIComponent(name)}`),
      json(`/api/log?run=${encodeURIComponent(name)}`),
    ]);
    if (chosen !== name) return;
    run = details;
    lines = log.lines;
    hasMore = lines.length > 0 && lines[lines.length - 1].seq > 1;
  } catch (error) {
    connected(String(error), true);
  }
  draw();
  listen();
  const found = await json(`/api/health?run=${encodeURIComponent(name)}`).catch(() => undefined);
  if (found && chosen === name) {
    health = found.chain;
    draw();
  }
}

async function older() {
  const before = lines[lines.length - 1]?.seq;
  const log = await json(`/api/log?run=${encodeURIComponent(chosen)}&before=${before}`);
  lines.push(...log.lines);
  hasMore = log.lines.length > 0 && lines[lines.length - 1].seq > 1;
  draw();
}

function draw() {
  drawInbox();
  drawRun();
}

function drawInbox() {
  if (!overview) return;
  const { runs } = overview;
  const needed = runs.filter((row) => ["needs you", "stuck", "broken"].includes(row.group)).length;
  document.title = needed ? `(${needed}) Phasegate` : "Phasegate";
  byId("project").textContent = overview.project ?? "";
  byId("warnings").replaceChildren(
    ...overview.openings.map((text) => el("p", {}, `The gate is open: ${text}`)),
    ...overview.problems.map((text) => el("p", {}, text)),
    ...overview.faults.map((fault) => el("p", {}, `${when(fault.at)}: ${fault.what}`)),
  );
  const groups = GROUPS.flatMap((group) => {
    const all = runs.filter((row) => row.group === group);
    if (!all.length) return [];
    const shown = group === "ended" ? all.slice(0, MAX_ENDED) : all;
    const more = all.length - shown.length;
    return [
      el("h3", { class: tone(group) }, `${group} (${all.length})`),
      ...shown.map(inboxRow),
      more ? el("p", { class: "dim" }, `and ${more} more`) : undefined,
    ];
  });
  const gates = overview.gates.map((sentence) => el("p", { class: "dim" }, sentence));
  const empty = runs.length || gates.length ? [] : [el("p", { class: "dim" }, "This project has no run.")];
  const inbox = byId("inbox");
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.run : undefined;
  inbox.replaceChildren(...gates, ...groups.filter((it) => it !== undefined), ...empty);
  if (focused) {
    const again = [...inbox.querySelectorAll("button")].find((it) => it.dataset.run === focused);
    again?.focus();
  }
}

/** @param {Row} row */
function inboxRow(row) {
  const told = row.told ?? row.standing;
  const button = el(
    "button",
    { click: () => choose(row.run), "aria-current": String(row.run === chosen), "data-run": row.run },
    el("strong", {}, row.run),
    el("small", {}, `${row.phase} · ${told}`),
  );
  return button;
}

/** @param {string} group */
function tone(group) {
  if (["needs you", "stuck", "broken"].includes(group)) return "needs";
  return group === "working" ? "working" : "";
}

function drawRun() {
  const place = byId("run");
  if (!run) {
    place.replaceChildren(el("p", { class: "dim" }, chosen ? "" : "Choose a run."));
    return;
  }
  const { scrollY } = window;
  const log = document.getElementById("log");
  place.replaceChildren(
    el("h2", {}, run.run),
    el("p", {}, el("strong", { class: tone(run.standing.startsWith("needs you") ? "needs you" : run.standing) }, run.standing), ` in phase ${run.phase}${run.phase_about ? `: ${run.phase_about}` : ""}`),
    ...run.remarks.map((remark) => el("p", { class: "remark" }, remark)),
    drawHealth(run),
    ...acts(run),
    el(
      "div",
      { class: "panels" },
      el("section", {}, el("h3", {}, "Phases"), picture(run)),
      el("section", {}, ...why()),
    ),
    el("div", { class: "panels" }, ...jobs(run), limits(run)),
    ...timeline(),
  );
  // The log is an element of its own that grows: it is kept, with its place.
  const again = document.getElementById("log");
  if (log && again && log.dataset.job === chosenJob) again.replaceWith(log);
  window.scrollTo(0, scrollY);
}

/** @param {Run} run */
function drawHealth(run) {
  const owner = run.owner ? `owner ${run.owner.session}, seen ${when(run.owner.seen)}` : "no session has it";
  const parts = [run.document, owner, health || "checking the journal …", ...run.tampered];
  return el("p", { class: run.tampered.length ? "trouble" : "dim" }, parts.join(" · "));
}

/** What a person can do about the run, where the server lets one. @param {Run} run */
function acts(run) {
  if (!run.acts.length) return [];
  const buttons = run.acts.map((act) => el("button", { class: "act", title: act.about, click: () => begin(run, act) }, act.act));
  return [el("p", {}, ...buttons), ...(acting?.run === run.run ? [acting.form] : [])];
}

/** Asks for what an act needs. It is bound to the line that is shown now. @param {Run} run @param {Act} act */
function begin(run, act) {
  const { seq } = run;
  const said = el("p", { role: "status" });
  const inputs = act.fields.map((field) => ({ field, input: input(field) }));
  const form = el(
    "form",
    { class: "acting" },
    el("h3", {}, `${act.act} ${run.run}`),
    el("p", { class: "dim" }, act.about),
    ...inputs.map(({ field, input }) => el("label", {}, `${field.name}: ${field.about}`, input)),
    el("button", { type: "submit" }, "Ask for a code"),
    said,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const params = Object.fromEntries(inputs.flatMap(({ field, input }) => given(field, input)));
      const { id, what } = await send("/api/propose", { run: run.run, seq, act: act.act, params });
      const code = el("input", { inputmode: "numeric", autocomplete: "off", maxlength: "6", "aria-label": "code" });
      const confirm = el("form", { class: "acting" }, el("p", {}, `${what}. The terminal of \`phasegate web\` shows the code.`), code, el("button", { type: "submit" }, act.act), said);
      confirm.addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
          const done = await send("/api/confirm", { id, code: /** @type {HTMLInputElement} */ (code).value });
          acting = { run: run.run, form: el("p", { class: "good", role: "status" }, done.said) };
          drawRun();
        } catch (error) {
          said.textContent = String(error instanceof Error ? error.message : error);
        }
      });
      acting = { run: run.run, form: confirm };
      drawRun();
      code.focus();
    } catch (error) {
      said.textContent = String(error instanceof Error ? error.message : error);
    }
  });
  acting = { run: run.run, form };
  drawRun();
}

/** @param {Field} field */
function input(field) {
  if (field.kind === "flag") return el("input", { type: "checkbox" });
  if (field.kind === "choice") {
    const none = field.needed ? [] : [el("option", { value: "" }, "")];
    return el("select", {}, ...none, ...(field.choices ?? []).map((it) => el("option", { value: it }, it)));
  }
  return el(field.kind === "number" ? "input" : "textarea", field.kind === "number" ? { type: "number" } : { rows: "2" });
}

/** @param {Field} field @param {HTMLElement} element @returns {[string, unknown][]} */
function given(field, element) {
  const input = /** @type {HTMLInputElement} */ (element);
  if (field.kind === "flag") return [[field.name, input.checked]];
  if (input.value.trim() === "") return [];
  if (field.kind === "number") return [[field.name, Number(input.value)]];
  return [[field.name, field.kind === "json" ? JSON.parse(input.value) : input.value]];
}

/** @param {string} path @param {unknown} body */
async function send(path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? response.statusText);
  return value;
}

/** @param {Run} run */
function picture(run) {
  if (!run.picture) return el("p", { class: "dim" }, "Its definition cannot be read.");
  // As an image: nothing in it can run, or reach the page.
  const source = `data:image/svg+xml,${encodeURIComponent(run.picture)}`;
  return el("img", { class: "picture", src: source, alt: `The phases of ${run.run}, now ${run.phase}` });
}

/** Why a line was decided as it was. */
function why() {
  const decided = lines.find((line) => line.trace?.tried?.length);
  const line = lines.find((it) => it.seq === chosenLine) ?? decided ?? lines[0];
  if (!line) return [el("h3", {}, "Why"), el("p", { class: "dim" }, "Nothing was decided yet.")];
  const tried = (line.trace?.tried ?? []).filter((it) => it.held || !it.rule.includes(" always "));
  const text = line.answer.reason ?? line.answer.message;
  return [
    el("h3", {}, `Why line ${line.seq}`),
    el("p", {}, `${line.event.name} in ${way(line)}: `, el("strong", { class: toneOf(line) }, said(line))),
    text ? el("pre", {}, text) : undefined,
    el("ol", { class: "rules" }, ...tried.map(rule)),
    line.trace?.more ? el("p", { class: "dim" }, `and ${line.trace.more} more rules`) : undefined,
    ...(line.evidence?.length
      ? [el("h3", {}, "Evidence"), el("table", {}, ...line.evidence.map((it) => el("tr", {}, el("td", {}, it.query), el("td", {}, it.answer))))]
      : []),
    ...(line.notes ?? []).map((note) => el("p", {}, `note: ${note}`)),
  ];
}

/** @param {Tried} tried */
function rule(tried) {
  const mark = (/** @type {boolean} */ held) => el("span", { class: held ? "good" : "dim" }, held ? "✓ " : "✗ ");
  const element = tried.element ? ` (${tried.element})` : "";
  return el(
    "li",
    {},
    mark(tried.held),
    `${tried.rule}${element} `,
    el("small", { class: "dim" }, `line ${tried.line}`),
    ...(tried.parts ?? []).map((part) => {
      const reads = (part.reads ?? []).map(([name, value]) => `${name} = ${value}`).join(", ");
      return el("div", { class: "part" }, mark(part.held), part.text, el("span", { class: "dim" }, reads ? `   ${reads}` : ""));
    }),
  );
}

/** @param {Line} line */
function said(line) {
  const { decision, outcome } = line.answer;
  return outcome ? `${decision.toUpperCase()} ${outcome}` : decision.toUpperCase();
}

/** @param {Line} line */
function toneOf(line) {
  if (line.answer.decision !== "allow") return "working";
  return line.answer.outcome === "done" ? "good" : "";
}

/** @param {Line} line */
function way(line) {
  return line.from === line.to || !line.from ? line.to : `${line.from} → ${line.to}`;
}

/** The newest first; lines that say the same are one row, and pauses are told. */
function timeline() {
  /** @type {Line[][]} */
  const rows = [];
  for (const line of lines) {
    const last = rows[rows.length - 1];
    if (last && alike(last[0], line)) last.push(line);
    else rows.push([line]);
  }
  const body = rows.flatMap((row, index) => {
    const [newest, oldest] = [row[0], row[row.length - 1]];
    const next = rows[index + 1]?.[0];
    const pause = next ? minutes(next.at, oldest.at) : 0;
    const text = newest.answer.reason ?? newest.answer.message ?? "";
    const open = () => {
      chosenLine = newest.seq;
      drawRun();
    };
    const shown = el(
      "tr",
      { class: "open", tabindex: "0", click: open, id: `line-${newest.seq}` },
      el("td", { class: "tight" }, row.length > 1 ? `${oldest.seq}–${newest.seq}` : String(newest.seq)),
      el("td", { class: "tight" }, when(newest.at)),
      el("td", {}, newest.event.name),
      el("td", { class: `tight ${toneOf(newest)}` }, said(newest) + (row.length > 1 ? ` ×${row.length}` : "")),
      el("td", {}, way(newest)),
      el("td", { class: "dim" }, text.split("\n")[0].slice(0, 120)),
    );
    shown.addEventListener("keydown", (event) => event.key === "Enter" && open());
    if (pause < GAP) return [shown];
    return [shown, el("tr", {}, el("td", { class: "gap", colspan: "6" }, `⋯ ${duration(pause)}`))];
  });
  const more = hasMore ? el("p", {}, el("button", { click: older }, "Older lines")) : undefined;
  return [el("h3", {}, "Timeline"), el("table", {}, ...body), ...(more ? [more] : [])];
}

/** @param {Line} a @param {Line} b */
function alike(a, b) {
  const text = (/** @type {Line} */ line) => line.answer.reason ?? line.answer.message;
  return a.event.name === b.event.name && said(a) === said(b) && way(a) === way(b) && text(a) === text(b);
}

/** @param {Run} run */
function jobs(run) {
  if (!run.jobs.length) return [];
  const rows = [...run.jobs].reverse().map((job) => {
    const time = job.seconds ?? Math.max(0, Math.round((Date.now() - Date.parse(job.started)) / 1000));
    const cost = job.micro_dollars ? `$${(job.micro_dollars / 1e6).toFixed(2)}` : "cost unknown";
    const what = [job.verdict, job.end, job.tree && `on tree ${job.tree.slice(0, 12)}`, job.file].filter(Boolean).join(" · ");
    const shows = ["agent", "worker", "reviewer"].includes(job.kind) ? cost : "";
    return el(
      "tr",
      { class: "open", tabindex: "0", click: () => showLog(job.id) },
      el("td", {}, job.id),
      el("td", {}, job.status),
      el("td", { class: "tight" }, `${time} s`),
      el("td", {}, shows),
      el("td", { class: "dim" }, what),
    );
  });
  const log = chosenJob ? [el("h3", {}, `Log of ${chosenJob}`), el("pre", { id: "log", "data-job": chosenJob })] : [];
  return [el("section", {}, el("h3", {}, "Jobs"), el("table", {}, ...rows), ...log)];
}

/** Shows what a job prints, as long as it prints. @param {string} id */
async function showLog(id) {
  const [name, job] = [chosen, id];
  chosenJob = id;
  drawRun();
  /** @type {number | undefined} */
  let from;
  while (chosen === name && chosenJob === job) {
    const at = from === undefined ? "" : `&from=${from}`;
    const part = await json(`/api/job?run=${encodeURIComponent(name)}&job=${encodeURIComponent(job)}${at}`).catch(() => undefined);
    const place = document.getElementById("log");
    if (!part || !place) return;
    const follows = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
    place.append(part.text);
    if (follows) place.scrollTop = place.scrollHeight;
    from = part.next;
    if (part.is_over && part.next >= part.size) return;
    if (part.next >= part.size) await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

/** @param {Run} run */
function limits(run) {
  const rows = run.limits.map((limit) => {
    const bar = limit.limit ? el("progress", { max: String(limit.limit), value: String(limit.used) }) : "";
    const of = limit.limit ? ` of ${limit.limit}` : "";
    return el("tr", {}, el("td", {}, limit.what), el("td", { class: "tight" }, `${limit.used}${of}`), el("td", {}, bar));
  });
  return el("section", {}, el("h3", {}, "Limits"), el("table", {}, ...rows));
}

/** @param {string} from @param {string} to */
function minutes(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 60_000;
}

/** @param {number} minutes */
function duration(minutes) {
  if (minutes < 60) return `${Math.round(minutes)} min`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** @param {string} time */
function when(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}

const first = decodeURIComponent(location.hash.slice(1));
if (first && !first.startsWith("token=")) choose(first);
else listen();

export {};
