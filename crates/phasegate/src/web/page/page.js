// @ts-check
// The page of `phasegate web`. Everything that it shows was written by agents, so that it is only ever put in as
// text: there is no HTML from strings here.

/**
 * @typedef {{run: string, name?: string, where?: string, group: string, phase: string, standing: string, told?: string, last?: string}} Row
 * @typedef {{project?: string, gates: string[], runs: Row[], problems: string[], openings: string[], has_more: boolean, faults: {at: string, what: string}[], counts?: Record<string, number>, jobs?: string[], machines?: {machine: string, seen: string}[]}} Overview
 * @typedef {{what: string, told: string, used: number, limit?: number}} Limit
 * @typedef {{id: string, status: string, started: string, ended?: string, seconds?: number, cost?: string, end?: string, tree?: string, verdict?: string, file?: string}} Job
 * @typedef {{run: string, name?: string, where?: string, phase: string, phase_about?: string, is_over: boolean, standing: string, remarks: string[], document: string, seq: number, picture?: string, limits: Limit[], jobs: Job[], health: Sign[], acts: Act[]}} Run
 * @typedef {{text: string, is_good: boolean}} Sign
 * @typedef {{answer: Answer, by_agent: boolean, facts: {fact: string, by_agent: boolean}[]}} Way
 * @typedef {{seq: number, about_ways: string, waits_for?: string, stuck: boolean, ways: Way[], not_computed?: string}} Now
 * @typedef {{began?: string, seq: number, tree?: string, definition?: string}} Seen
 * @typedef {{name: string, about: string, kind: string, choices?: string[], needed?: boolean}} Field
 * @typedef {{act: string, about: string, fields: Field[]}} Act
 * @typedef {{text: string, held: boolean, reads?: [string, string][]}} Part
 * @typedef {{rule: string, line: number, element?: string, held: boolean, parts?: Part[]}} Tried
 * @typedef {{decision: string, outcome?: string, reason?: string, message?: string}} Answer
 * @typedef {{seq: number, at: string, event: {name: string, actor: string, agent?: string, params?: Record<string, unknown>, signed?: {principal: string, kind: string, key: string}}, from: string, to: string, answer: Answer, moves?: {of: string, from: string, to: string, by: string}[], trace?: {tried?: Tried[], more?: number, violated?: string[]}, evidence?: {query: string, answer: string, digest?: string}[], notes?: string[], unreached?: string[][]}} Line
 */

const GROUPS = ["needs you", "stuck", "broken", "working", "waiting", "ended"];
/** A pause of this many minutes is shown as one. */
const GAP = 10;

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
/** That line, where it is older than those of the timeline. @type {Line | undefined} */
let linked;
let chosenJob = "";
/** The form of an act, which stays while the rest of the page is drawn anew. @type {{run: string, number: number, form: HTMLElement} | undefined} */
let acting;
let forms = 0;
let hasMore = false;
/** What takes longer to tell: whether the journal is whole, and which results are about the files as they are; and at which line. @type {{seq: number, chain: Sign, holds: Record<string, boolean>} | undefined} */
let checked;
/** The run, and the line of it, that this was asked for. */
let checking = "";
/** The log that is shown. @type {HTMLElement | undefined} */
let log;
/** What is to be scrolled to when it is there. */
let scrollsTo = "";
/** What would open the gate, as it was when somebody asked. @type {{run: string, at: number, told?: Now} | undefined} */
let opening;
/** @type {AbortController | undefined} */
let stream;

/** Takes the token out of the address, so that it is not in the history, and keeps it for this tab. */
function takeToken() {
  const given = place().get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? sessionStorage.getItem("token") ?? "";
}

/** What the address says behind its #: the token, or a run and a line. */
function place() {
  return new URLSearchParams(location.hash.slice(1));
}

/** @param {string} run @param {number} [line] */
function address(run, line) {
  const slashes = encodeURIComponent(run).replaceAll("%2F", "/");
  return `#run=${slashes}${line === undefined ? "" : `&line=${line}`}`;
}

/** Text with its control characters shown instead of obeyed, and those that turn the direction of what follows. @param {string} text */
function plain(text) {
  const shown = (/** @type {string} */ it) => `\\u{${(it.codePointAt(0) ?? 0).toString(16)}}`;
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, shown);
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
  for (const child of children) {
    if (child !== undefined) made.append(typeof child === "string" ? plain(child) : child);
  }
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
  return value(await ask(path));
}

const NO_TOKEN = "The token is missing or old: open the address that `phasegate web` has printed.";

/** What was answered; what was refused is an error that says why. @param {Response} response */
async function value(response) {
  if (response.status === 401) throw new Error(NO_TOKEN);
  const isJson = response.headers.get("Content-Type") === "application/json";
  const told = isJson ? await response.json() : { error: (await response.text()).trim() };
  if (!response.ok) throw new Error(told.error);
  return told;
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
      const about = chosen ? `?run=${encodeURIComponent(chosen)}&since=${lines[0]?.seq ?? 0}` : "";
      const response = await ask(`/api/live${about}`, mine.signal);
      if (response.status === 401) {
        connected(NO_TOKEN, true);
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
  const told = JSON.parse(data);
  if (name === "overview") {
    overview = told;
    // The newest first.
    overview?.runs.sort((a, b) => (b.last ?? "").localeCompare(a.last ?? ""));
  }
  if (name === "run" && told.run === chosen) run = told;
  if (name === "gone") gone(`Run ${chosen} is not there any more.`);
  if (name === "line" && (!lines.length || told.seq > lines[0].seq)) lines.unshift(told);
}

/** @param {string} name @param {number} [line] */
async function choose(name, line) {
  look(name);
  chosenLine = line;
  if (location.hash !== address(name, line)) location.hash = address(name, line);
  draw();
  try {
    const [details, found] = await Promise.all([
      json(`/api/run?run=${encodeURIComponent(name)}`),
      json(`/api/log?run=${encodeURIComponent(name)}`),
    ]);
    if (chosen !== name) return;
    run = details;
    lines = found.lines;
    hasMore = lines.length > 0 && lines[lines.length - 1].seq > 1;
    if (line !== undefined) await link(line);
    scrollsTo = line === undefined ? "#run" : ".why";
  } catch (error) {
    if (chosen === name) gone(error instanceof Error ? error.message : String(error));
    return;
  }
  draw();
  listen();
}

/** Looks at a run, or at none. @param {string} name */
function look(name) {
  chosen = name;
  run = linked = chosenLine = checked = opening = log = undefined;
  lines = [];
  chosenJob = checking = "";
}

/** Says why there is no run to show. @param {string} why */
function gone(why) {
  look("");
  draw();
  byId("run").replaceChildren(el("p", { class: "trouble", role: "alert" }, why));
  listen();
}

/** Asks for what takes longer to tell, once for each line of the journal. */
async function check() {
  if (!run || checking === `${run.run} ${run.seq}`) return;
  const mine = (checking = `${run.run} ${run.seq}`);
  const { seq } = run;
  const found = await json(`/api/health?run=${encodeURIComponent(run.run)}`).catch(() => undefined);
  if (!found || checking !== mine) return;
  checked = { seq, ...found };
  drawRun();
}

/** Has the line that is shown, also where it is an old one. @param {number} line */
async function link(line) {
  if (lines.some((it) => it.seq === line)) return;
  const log = await json(`/api/log?run=${encodeURIComponent(chosen)}&before=${line + 1}`);
  if (log.lines[0]?.seq === line) linked = log.lines[0];
}

/** Goes where the address leads: by a link, or back. */
function go() {
  const [name, line] = [place().get("run"), place().get("line")];
  const seq = line === null ? undefined : Number(line);
  if (!name) {
    look("");
    draw();
    return false;
  }
  if (name !== chosen || !run) choose(name, seq);
  else if (seq !== chosenLine) {
    chosenLine = seq;
    if (seq === undefined) drawRun();
    else link(seq).finally(() => {
      scrollsTo = ".why";
      drawRun();
    });
  }
  return true;
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

/** What each part of the page was made of. @type {WeakMap<HTMLElement, string>} */
const made = new WeakMap();

/**
 * Makes a part of the page anew, but only where what it is made of has changed: focus, selection and place stay.
 * @param {HTMLElement} place
 * @param {unknown} of
 * @param {() => (Node | undefined)[]} make
 */
function fill(place, of, make) {
  const key = JSON.stringify(of);
  if (made.get(place) === key) return;
  made.set(place, key);
  const focused = document.activeElement instanceof HTMLElement && place.contains(document.activeElement) ? document.activeElement : undefined;
  place.replaceChildren(...make().filter((it) => it !== undefined));
  if (!focused) return;
  const named = () => [.../** @type {NodeListOf<HTMLElement>} */ (place.querySelectorAll("[data-key]"))].find((it) => it.dataset.key === focused.dataset.key);
  (focused.isConnected ? focused : named())?.focus({ preventScroll: true });
}

function drawInbox() {
  if (!overview) return;
  const { runs, project, openings, problems, faults, gates } = overview;
  const needed = runs.filter((row) => tone(row.group) === "needs").length;
  document.title = needed ? `(${needed}) Phasegate` : "Phasegate";
  byId("project").textContent = plain(project ?? "");
  fill(byId("warnings"), [openings, problems, faults], () => [
    ...openings.map((text) => el("p", {}, `The gate is open: ${text}`)),
    ...problems.map((text) => el("p", {}, text)),
    ...faults.map((fault) => el("p", {}, `${when(fault.at)}: ${fault.what}`)),
  ]);
  fill(byId("inbox"), [runs.map(({ last, ...shown }) => shown), gates, overview.has_more, chosen], () => [
    ...gates.map((sentence) => el("p", { class: "dim" }, sentence)),
    ...GROUPS.flatMap(inboxGroup),
    runs.length || gates.length ? undefined : el("p", { class: "dim" }, "This project has no run. `phasegate start WORKFLOW` begins one."),
  ]);
  drawFleet(overview);
}

/** What is at work beside the runs, where all machines are shown. @param {Overview} overview */
function drawFleet({ jobs = [], machines = [] }) {
  const list = (/** @type {string} */ title, /** @type {string[]} */ texts) => (texts.length ? [el("h3", {}, title), ...texts.map((text) => el("p", { class: "dim" }, text))] : []);
  const seen = machines.map(({ machine, seen }) => `${machine}: last sign ${when(seen)}`);
  fill(byId("fleet"), [jobs, seen], () => [...list("jobs", jobs), ...list("machines", seen)]);
}

/** @param {string} group */
function inboxGroup(group) {
  const all = overview?.runs.filter((row) => row.group === group) ?? [];
  if (!all.length) return [];
  const isFleet = overview?.machines !== undefined;
  const count = overview?.counts?.[group] ?? all.length;
  const more = (group === "ended" && overview?.has_more) || count > all.length;
  // Tab leads to one of them, the arrow keys to the others.
  const first = chosen || GROUPS.map((it) => overview?.runs.find((row) => row.group === it)).find(Boolean)?.run;
  return [
    el("h3", { class: tone(group) }, `${group} (${count}${group === "ended" && overview?.has_more ? "+" : ""})`),
    ...all.map((row) => inboxRow(row, row.run === first)),
    more ? el("p", { class: "dim" }, `\`phasegate ${isFleet ? "fleet" : "status"} --all\` lists the others.`) : undefined,
  ];
}

/** @param {Row} row @param {boolean} isFirst */
function inboxRow(row, isFirst) {
  const told = [row.phase, row.told ?? row.standing].filter((it, at, all) => all.indexOf(it) === at);
  return el(
    "button",
    { click: () => choose(row.run), "aria-current": String(row.run === chosen), "data-key": row.run, tabindex: isFirst ? "0" : "-1" },
    el("strong", {}, row.name ?? row.run),
    row.where === undefined ? undefined : el("small", {}, row.where),
    el("small", {}, told.join(" · ")),
  );
}

/** @param {string} group */
function tone(group) {
  if (["needs you", "stuck", "broken"].includes(group)) return "needs";
  return group === "working" ? "working" : "";
}

/** The parts of a run, in their order. */
const PARTS = ["head", "acts", "phases", "limits", "why", "jobs", "log", "timeline"];
/** @type {{of: string, place: Record<string, HTMLElement>} | undefined} */
let parts;

function drawRun() {
  const whole = byId("run");
  if (!run) {
    const text = chosen ? `Looking at ${chosen} …` : overview?.runs.length ? "Choose a run." : "";
    parts = undefined;
    fill(whole, [text], () => [el("p", { class: "dim" }, text)]);
    return;
  }
  if (parts?.of !== run.run) {
    const place = Object.fromEntries(PARTS.map((name) => [name, el("section", { class: name })]));
    parts = { of: run.run, place };
    made.delete(whole);
    const panels = el("div", { class: "panels" }, el("div", { class: "left" }, place.phases, place.limits), place.why);
    whole.replaceChildren(place.head, place.acts, panels, place.jobs, place.log, place.timeline);
  }
  const { place } = parts;
  const [now, shown] = [run, chosenLine];
  const newest = lines[0]?.seq;
  const isWide = Number(/ width="(\d+)"/.exec(run.picture ?? "")?.[1] ?? 0) > 450;
  place.phases.parentElement?.classList.toggle("wide", isWide);
  const { standing, phase, phase_about, remarks, health: signs, document: file } = run;
  fill(place.head, [standing, phase, phase_about, remarks, signs, file, checked], () => head(now));
  fill(place.acts, [run.acts, acting?.run === run.run ? acting.number : 0], () => acts(now));
  fill(place.phases, [run.picture], () => [el("h3", {}, "Phases"), picture(now)]);
  fill(place.limits, [run.limits], () => limits(now));
  fill(place.why, [newest, shown, linked?.seq, opening, opening && run.seq, run.is_over, lines.length > 0], why);
  const rows = jobRows(run);
  fill(place.jobs, [rows, chosenJob], () => jobs(rows));
  // Apart from what is drawn every second: a log keeps its place.
  fill(place.log, [chosenJob], shownLog);
  fill(place.timeline, [newest, lines.length, shown, linked?.seq, hasMore, new Date().toDateString()], timeline);
  say(`${run.name ?? run.run}: ${standing} in phase ${phase}`);
  if (scrollsTo) {
    const target = document.querySelector(scrollsTo);
    const top = target?.getBoundingClientRect().top ?? 0;
    // On a phone the inbox is above the run.
    if (top < 0 || top > innerHeight / 2) target?.scrollIntoView({ block: "start" });
    scrollsTo = "";
  }
  check();
}

/** Tells those who listen to the page, where that is new. @param {string} text */
function say(text) {
  const place = byId("announce");
  if (place.textContent !== plain(text)) place.textContent = plain(text);
}

/** @param {Run} run */
function head(run) {
  return [
    el("h2", {}, run.name ?? run.run),
    run.where === undefined ? undefined : el("p", { class: "dim" }, `${run.where}; what its store knows, only to look at`),
    el("p", {}, el("strong", { class: tone(run.standing.startsWith("needs you") ? "needs you" : run.standing) }, run.standing), ` in phase ${run.phase}${run.phase_about ? `: ${run.phase_about}` : ""}`),
    ...run.remarks.map((remark) => el("p", { class: "remark" }, remark)),
    health(run),
  ];
}

/** Whether what is shown can be relied on. @param {Run} run */
function health(run) {
  const mark = (/** @type {Sign} */ sign) => el("li", { class: sign.is_good ? "" : "trouble" }, `${sign.is_good ? "✓" : "⚠"} ${sign.text}`);
  const chain = checked ? mark(checked.chain) : el("li", {}, "… checking the journal");
  return el("ul", { class: "health", "aria-label": "Health" }, ...run.health.map(mark), chain, el("li", {}, run.document));
}

/** What a person can do about the run, where the server lets one. @param {Run} run */
function acts(run) {
  if (!run.acts.length && acting?.run !== run.run) return [];
  const button = (/** @type {Act} */ act) => el("button", { class: "act", "data-key": act.act, title: act.about, click: () => begin(run, act) }, act.act);
  return [el("p", { class: "row" }, ...run.acts.map(button)), acting?.run === run.run ? acting.form : undefined];
}

/** Shows the form of an act, or what came of it; none closes it. @param {string} run @param {HTMLElement} [form] */
function show(run, form) {
  acting = form && { run, number: (forms += 1), form };
  drawRun();
}

/** Asks for what an act needs. It is bound to what is there to see now. @param {Run} run @param {Act} act */
async function begin(run, act) {
  const problem = el("p", { class: "trouble", role: "alert" });
  const failed = (/** @type {unknown} */ error) => {
    problem.textContent = plain(error instanceof Error ? error.message : String(error));
  };
  const close = () => {
    show(run.run);
    /** @type {HTMLElement | null} */ (document.querySelector(`.acts [data-key="${CSS.escape(act.act)}"]`))?.focus();
  };
  const never = () => el("button", { type: "button", click: close }, "Close");
  /** @param {HTMLElement[]} fields @param {string} label @param {() => Promise<void>} then */
  const form = (fields, label, then) => {
    const made = el("form", { class: "acting", "aria-label": `${act.act} ${run.run}` }, ...fields, el("p", { class: "row" }, el("button", { type: "submit", class: "main" }, label), never()), problem);
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      problem.textContent = "";
      then().catch(failed);
    });
    made.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
    show(run.run, made);
    /** @type {HTMLElement | null} */ (made.querySelector("input, textarea, select") ?? made.querySelector("button"))?.focus();
  };
  try {
    /** @type {Seen} */
    const seen = await json(`/api/seen?run=${encodeURIComponent(run.run)}`);
    const inputs = act.fields.map((field) => ({ field, input: input(field) }));
    const short = (/** @type {string | undefined} */ digest) => digest?.slice(0, 12) ?? "unknown";
    const bound = `For the run as it is: line ${seen.seq}, files ${short(seen.tree)}.`;
    const fields = inputs.map(({ field, input }) => el("label", {}, `${field.name}: ${field.about}${field.needed ? "" : " (may be left out)"}`, input));
    form([el("h3", {}, `${act.act} ${run.run}`), el("p", {}, act.about), el("p", { class: "dim" }, bound), ...fields], "Ask for a code", async () => {
      const params = Object.fromEntries(inputs.flatMap(({ field, input }) => given(field, input)));
      const { id, what } = await send("/api/propose", { run: run.run, seen, act: act.act, params });
      const code = /** @type {HTMLInputElement} */ (el("input", { inputmode: "numeric", autocomplete: "off", maxlength: "6", pattern: "[0-9]{6}", required: "", title: "Six digits", "aria-label": "code" }));
      form([el("p", {}, what), el("p", {}, "The terminal of `phasegate web` shows a code for this: "), code], act.act, async () => {
        const done = await send("/api/confirm", { id, code: code.value });
        show(run.run, el("p", { class: "good", role: "status" }, `${act.act}: ${done.said}`));
      });
    });
  } catch (error) {
    show(run.run, problem);
    failed(error);
  }
}

/** @param {Field} field */
function input(field) {
  if (field.kind === "flag") return el("input", { type: "checkbox" });
  /** @type {Record<string, string>} */
  const needed = field.needed ? { required: "" } : {};
  if (field.kind === "choice") {
    return el("select", needed, el("option", { value: "" }, ""), ...(field.choices ?? []).map((it) => el("option", { value: it }, it)));
  }
  return field.kind === "number" ? el("input", { type: "number", ...needed }) : el("textarea", { rows: "2", ...needed });
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
  return value(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** @param {Run} run */
function picture(run) {
  if (!run.picture) return el("p", { class: "dim" }, "Its definition cannot be read.");
  // As an image: nothing in it can run, or reach the page.
  const source = `data:image/svg+xml,${encodeURIComponent(run.picture)}`;
  const image = el("img", { class: "picture", src: source, alt: `The phases of ${run.name ?? run.run}, now ${run.phase}` });
  return el("div", { class: "scroll", tabindex: "0", "data-key": "picture" }, image);
}

/** Why a line was decided as it was. */
function why() {
  const decided = lines.find((line) => line.trace?.tried?.length);
  const sought = linked?.seq === chosenLine ? linked : lines.find((it) => it.seq === chosenLine);
  const line = sought ?? decided ?? lines[0];
  if (!line) return [el("h3", {}, "Why"), el("p", { class: "dim" }, "Nothing was decided yet.")];
  const { tried = [], more, violated = [] } = line.trace ?? {};
  // Rules without an event are tried many times and mostly say no.
  const isLoud = (/** @type {Tried} */ it) => it.held || !/ always \d+$/.test(it.rule);
  const quiet = tried.filter((it) => !isLoud(it));
  const shown = (/** @type {Tried} */ it) => rule(it, line.unreached?.[tried.indexOf(it)] ?? []);
  const text = line.answer.reason ?? line.answer.message;
  return [
    el("h3", {}, `Why line ${line.seq}`),
    el("p", {}, `${what(line)}${way(line) ? ` in ${way(line)}` : ""}: `, el("strong", { class: toneOf(line) }, said(line)), el("span", { class: "dim" }, ` ${when(line.at)}`)),
    line.event.signed ? el("p", {}, signed(line.event.signed)) : undefined,
    text ? el("pre", {}, text) : undefined,
    ...Object.entries(line.event.params ?? {}).map(([name, value]) => el("div", { class: "part dim" }, `${name} = ${typeof value === "string" ? value : JSON.stringify(value)}`)),
    ...(line.seq === (decided ?? lines[0])?.seq ? opens() : []),
    tried.length ? el("h3", {}, "Rules, in the order in which they were tried") : undefined,
    el("ol", { class: "rules" }, ...tried.filter(isLoud).map(shown)),
    more ? el("p", { class: "dim" }, `and ${more} more rules`) : undefined,
    quiet.length ? el("details", {}, el("summary", {}, `and ${quiet.length} without an event that did not hold`), el("ol", { class: "rules" }, ...quiet.map(shown))) : undefined,
    ...violated.map((name) => el("p", { class: "trouble" }, `violated: property "${name}"`)),
    ...(line.moves ?? []).map((move) => el("p", {}, `moved: ${move.of} ${move.from} → ${move.to} by rule ${move.by}`)),
    ...(line.evidence?.length
      ? [el("h3", {}, "Evidence"), table(["Looked up", "Found", "Digest"], line.evidence.map((it) => el("tr", {}, el("td", {}, it.query), el("td", {}, it.answer), el("td", { class: "dim", title: it.digest ?? "" }, it.digest === it.answer ? "" : (it.digest?.slice(0, 12) ?? "")))))]
      : []),
    ...(line.notes ?? []).map((note) => el("p", {}, `note: ${note}`)),
  ];
}

/** Who has signed an act. @param {NonNullable<Line["event"]["signed"]>} it */
function signed(it) {
  return `signed by ${it.principal} (${it.kind.replace(/@openssh\.com$/, "")} ${it.key})`;
}

/** @param {string[]} heads @param {HTMLElement[]} rows */
function table(heads, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((it) => el("th", { scope: "col" }, it)))), el("tbody", {}, ...rows));
}

/** What would open the gate: it takes many decisions, so that it is worked out when somebody asks. */
function opens() {
  if (!run || run.is_over) return [];
  const isOld = opening?.told && opening.told.seq !== run.seq;
  const label = opening?.told ? "Look again" : "What would open the gate?";
  const button = el("p", {}, el("button", { class: "act", "data-key": "opens", click: askNow }, label), isOld ? el("span", { class: "dim" }, `This was so at line ${opening?.told?.seq}.`) : "");
  if (!opening) return [button];
  const { told } = opening;
  if (!told) return [el("p", { class: "dim", role: "status" }, "Deciding …")];
  if (told.not_computed) return [el("p", { role: "status" }, `Not computed, because ${told.not_computed}.`), button];
  const first = told.waits_for ? [el("p", {}, `A stop now: ${told.waits_for} would run first.`)] : [];
  const stuck = told.stuck ? [el("p", {}, "Nothing has changed since the agent was told to go on: a stop that follows is let go as stuck.")] : [];
  const ways = told.ways.map((way) =>
    el("li", {}, el("strong", {}, said(way)), way.by_agent ? "" : " (not by the agent alone)", ...way.facts.map((fact) => el("div", { class: "part" }, fact.fact))),
  );
  return [el("div", { class: "opens", role: "status" }, el("p", {}, el("strong", {}, told.about_ways)), ...first, ...stuck, el("ol", {}, ...ways), button)];
}

async function askNow() {
  const mine = (opening = /** @type {NonNullable<typeof opening>} */ ({ run: chosen, at: Date.now() }));
  drawRun();
  const failed = (/** @type {unknown} */ error) => ({ seq: run?.seq ?? 0, not_computed: String(error instanceof Error ? error.message : error) });
  const told = await json(`/api/now?run=${encodeURIComponent(chosen)}`).catch(failed);
  if (opening !== mine) return;
  mine.told = told;
  drawRun();
  /** @type {HTMLElement | null} */ (document.querySelector("[data-key=opens]"))?.focus();
}

/** @param {Tried} tried @param {string[]} unreached */
function rule(tried, unreached) {
  const mark = (/** @type {boolean} */ held) => el("span", { class: held ? "good" : "dim", role: "img", "aria-label": held ? "yes" : "no" }, held ? "✓ " : "✗ ");
  const element = tried.element ? ` (${tried.element})` : "";
  return el(
    "li",
    {},
    mark(tried.held),
    `${tried.rule}${element} `,
    el("small", { class: "dim" }, `line ${tried.line}`),
    ...(tried.parts ?? []).map((part) => {
      const reads = (part.reads ?? []).map(([name, value]) => `${name} = ${value}`).join(", ");
      return el("div", { class: "part" }, mark(part.held), part.text, el("span", { class: "dim" }, reads ? `   with ${reads}` : ""));
    }),
    ...unreached.map((text) => el("div", { class: "part dim" }, `· ${text}   not reached`)),
  );
}

/** @param {{answer: Answer}} line */
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

/** What happened, and by whom where that is not as always. @param {Line} line */
function what(line) {
  const { name, actor, agent, params } = line.event;
  if (name.startsWith("job-")) return `${name} ${params?.kind ?? ""} ${params?.name ?? ""}`;
  const by = agent ?? (["worker", "engine"].includes(actor) ? "" : actor);
  return by ? `${name} by ${by}` : name;
}

/** What was answered, or else what was given as the reason. @param {Line} line */
function words(line) {
  const { answer, event } = line;
  const given = event.params?.reason ?? event.params?.end;
  return answer.reason ?? answer.message ?? (given === undefined ? undefined : String(given));
}

/** The newest first; lines that say the same are one row, and pauses are told. */
function timeline() {
  /** @type {Line[][]} */
  const rows = [];
  // A line that is linked to, and older than those that are there, comes after them.
  const isOlder = linked && linked.seq < (lines[lines.length - 1]?.seq ?? 0);
  for (const line of isOlder && linked ? [...lines, linked] : lines) {
    const last = rows[rows.length - 1];
    if (last && alike(last[0], line) && last[last.length - 1].seq === line.seq + 1) last.push(line);
    else rows.push([line]);
  }
  const body = rows.flatMap((row, index) => {
    const [newest, oldest] = [row[0], row[row.length - 1]];
    const next = rows[index + 1]?.[0];
    const text = (words(newest) ?? (newest.event.signed ? signed(newest.event.signed) : "")).replace(/\s+/g, " ");
    const number = row.length > 1 ? `${oldest.seq}–${newest.seq}` : String(newest.seq);
    const isShown = row.some((line) => line.seq === chosenLine);
    const lasted = minutes(oldest.at, newest.at);
    const times = row.length > 1 ? ` ×${row.length}${lasted >= 1 ? ` in ${duration(lasted)}` : ""}` : "";
    const shown = el(
      "tr",
      isShown ? { id: `line-${newest.seq}`, class: "shown", "aria-current": "true" } : { id: `line-${newest.seq}` },
      el("td", { class: "tight" }, el("a", { href: address(chosen, newest.seq), "data-key": `line ${newest.seq}`, title: "Why, and a link to this line" }, number)),
      el("td", { class: "tight" }, clock(newest.at)),
      el("td", { class: "event" }, what(newest)),
      el("td", { class: toneOf(newest) }, said(newest) + times),
      el("td", {}, way(newest)),
      el("td", { class: "dim text" }, text.length > 160 ? `${text.slice(0, 160)} …` : text),
    );
    if (!next) return [shown];
    const left = oldest.seq - next.seq - 1;
    const pause = minutes(next.at, oldest.at);
    const gap = left > 0 ? `⋯ ${left} lines` : pause >= GAP ? `⋯ ${duration(pause)}` : "";
    return gap ? [shown, el("tr", { class: "gap" }, el("td", { colspan: "6" }, gap))] : [shown];
  });
  if (!body.length) return [el("h3", {}, "Timeline"), el("p", { class: "dim" }, "The journal has no line yet.")];
  const more = hasMore ? el("p", {}, el("button", { class: "act", "data-key": "older", click: older }, "Older lines")) : undefined;
  return [el("h3", {}, "Timeline"), table(["Line", "Time", "Event", "Answer", "Phase", "Said"], body), more];
}

/** @param {Line} a @param {Line} b */
function alike(a, b) {
  return what(a) === what(b) && said(a) === said(b) && way(a) === way(b) && words(a) === words(b);
}

/** What is told of each job, the newest first. @param {Run} run */
function jobRows(run) {
  return [...run.jobs].reverse().map((job) => {
    const time = job.seconds ?? Math.max(0, Math.round((Date.now() - Date.parse(job.started)) / 1000));
    const holds = checked?.seq === run.seq ? checked.holds[job.id] : undefined;
    const about = holds === undefined ? "" : holds ? ", as they are now" : ", which have changed since";
    const tree = job.tree && `about files ${job.tree.slice(0, 12)}${about}`;
    const found = [job.verdict, job.end, tree, job.file].filter(Boolean).join(" · ");
    const age = minutes(job.ended ?? job.started, new Date().toISOString());
    return { id: job.id, status: job.status, at: job.ended ?? job.started, age: age < 1 ? "just now" : `${duration(age)} ago`, time: duration(time / 60), cost: job.cost ? `cost ${job.cost}` : "", found };
  });
}

/** @param {ReturnType<typeof jobRows>} rows */
function jobs(rows) {
  if (!rows.length) return [];
  const shown = rows.map(({ id, status, at, age, time, cost, found }) =>
    el(
      "tr",
      id === chosenJob ? { class: "shown" } : {},
      el("td", {}, el("button", { class: "link", "data-key": `job ${id}`, click: () => showLog(id), title: "Its log", "aria-expanded": String(id === chosenJob) }, id)),
      el("td", {}, status),
      el("td", { class: "tight", title: when(at) }, age),
      el("td", { class: "tight" }, time),
      el("td", {}, cost),
      el("td", { class: "dim" }, found),
    ),
  );
  return [el("h3", {}, "Jobs"), table(["Job", "State", "When", "Time", "Cost", "Result"], shown)];
}

function shownLog() {
  if (!log) return [];
  const close = el("button", { class: "link", click: () => showLog(chosenJob) }, "close");
  return [el("h3", {}, `Log of ${chosenJob} `, close), log];
}

/** How much of a log stays on the page. */
const MAX_LOG = 400_000;

/** Shows what a job prints, as long as it prints, or takes its log away. @param {string} id */
async function showLog(id) {
  const isShown = chosenJob === id;
  chosenJob = isShown ? "" : id;
  const mine = (log = isShown ? undefined : el("pre", { id: "log", tabindex: "0", "data-key": "log", "aria-label": `Log of ${id}` }));
  drawRun();
  let from = "";
  let text = "";
  while (mine && log === mine) {
    const part = await json(`/api/job?run=${encodeURIComponent(chosen)}&job=${encodeURIComponent(id)}${from}`).catch(() => undefined);
    if (log !== mine) return;
    if (part?.text) {
      const follows = mine.scrollTop + mine.clientHeight >= mine.scrollHeight - 4;
      text += plain(part.text);
      if (text.length <= MAX_LOG) mine.append(plain(part.text));
      else mine.textContent = text = text.slice(-MAX_LOG / 2);
      if (follows) mine.scrollTop = mine.scrollHeight;
    }
    const isWhole = part && part.next >= part.size;
    if (part) from = `&from=${part.next}`;
    if (isWhole && part.is_over) {
      if (!text) mine.textContent = "It has printed nothing.";
      return;
    }
    // Also while the server is away.
    if (!part || isWhole || !part.text) await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

/** @param {Run} run */
function limits(run) {
  const rows = run.limits.map(({ what, told, used, limit }) => {
    const bar = limit ? el("progress", { max: String(limit), value: String(used), "aria-label": `${what}: ${told}` }) : "";
    return el("tr", {}, el("td", {}, what), el("td", {}, told), el("td", {}, bar));
  });
  return [el("h3", {}, "Limits"), el("table", {}, el("tbody", {}, ...rows))];
}

/** @param {string} from @param {string} to */
function minutes(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 60_000;
}

/** @param {number} minutes */
function duration(minutes) {
  if (minutes < 1) return `${Math.round(minutes * 60)} s`;
  if (minutes < 60) return `${Math.round(minutes)} min`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** @param {string} time */
function when(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}

/** A time that programs can read too. @param {string} time */
function clock(time) {
  return el("time", { datetime: time }, when(time));
}

/** Up and down go through the inbox. */
byId("inbox").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...byId("inbox").querySelectorAll("button")];
  const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  buttons[Math.min(Math.max(at + step, 0), buttons.length - 1)]?.focus();
  event.preventDefault();
});
addEventListener("hashchange", () => {
  if (!go()) listen();
});
// What works goes on while nothing is told.
setInterval(() => run?.jobs.some((job) => !job.ended) && drawRun(), 1000);
if (!go()) listen();

export {};
