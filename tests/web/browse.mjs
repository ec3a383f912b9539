// Looks at the page as a person does: in a browser, while things happen.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { pictures } from "./pictures.mjs";

const { PHASEGATE, SHOTS } = process.env;
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** A project with a workflow that asks a person, and one whose check prints for a while. */
function project() {
  const root = mkdtempSync(join(tmpdir(), "phasegate-web-"));
  mkdirSync(join(root, ".phasegate/workflows"), { recursive: true });
  spawnSync("git", ["init", "-q"], { cwd: root });
  const gate = (name, text) => writeFileSync(join(root, `.phasegate/workflows/${name}.toml`), text);
  gate("release", `name = "release"
about = "Notes first, then a person says when it goes out."
initial = "working"
[action.approve]
about = "Let it go out"
by = "human"
param.reason = { type = "string", about = "Why" }
[phase.working]
about = "The agent writes the notes."
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md, then stop again." },
  { on = "stop", goto = "asking", allow = "waiting", until = "human", message = "The notes are there. Approve the release?" },
]
[phase.asking]
about = "A person decides."
rules = [
  { on = "approve", goto = "done" },
  { on = "stop", allow = "waiting", until = "human", message = "The notes are there. Approve the release?" },
]
[phase.done]
final = true
`);
  gate("ship", `name = "ship"
about = "The tests pass."
initial = "working"
[check.tests]
run = ["sh", "slow.sh"]
[phase.working]
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\\n{{ check.tests.tail }}" },
  { on = "stop", goto = "done", allow = "done" },
]
[phase.done]
final = true
`);
  writeFileSync(join(root, "slow.sh"), 'for n in 1 2 3 4; do echo "step $n <img src=x onerror=window.hit=1>"; [ $n != 3 ] || until [ -e go-on ]; do sleep 0.1; done; done; exit 1\n');
  return root;
}

const env = { ...process.env, PHASEGATE_TRUST_ALL: "1" };

/** @param {string} root @param {string[]} args */
function gate(root, ...args) {
  if (args[0] === "git") return spawnSync("git", ["init", "-q"], { cwd: root });
  if (args[0] === "person") {
    // Only a person at a terminal may do this.
    const line = [PHASEGATE, "-C", root, ...args.slice(1)].map((it) => `'${it}'`).join(" ");
    return spawnSync("script", ["-q", "-e", "-c", line, "/dev/null"], { env, stdio: ["pipe", "ignore", "inherit"] });
  }
  const ran = spawnSync(PHASEGATE, ["-C", root, ...args], { env, encoding: "utf8" });
  assert.equal(ran.status, 0, `${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout;
}

/** A stop of a session, as its client tells it. */
function stop(root, session = "s1") {
  const payload = { session_id: session, cwd: root, hook_event_name: "Stop", stop_hook_active: false, transcript_path: join(root, "none.jsonl") };
  return spawn(PHASEGATE, ["hook", "stop", "--client", "claude"], { cwd: root, env, stdio: ["pipe", "ignore", "inherit"] }).stdin.end(JSON.stringify(payload));
}

/** The same, when it has been answered. */
function stopped(root, session, again = false) {
  const payload = { session_id: session, cwd: root, hook_event_name: "Stop", stop_hook_active: again, transcript_path: join(root, "none.jsonl") };
  return spawnSync(PHASEGATE, ["hook", "stop", "--client", "claude"], { cwd: root, env, input: JSON.stringify(payload) });
}

let servers = 0;
/** Serves the page at a terminal; what that shows is kept. */
async function serve(root, port) {
  // Not among the project's files, which an act is bound to.
  const shown = `${root}-shown-${(servers += 1)}.txt`;
  writeFileSync(shown, "");
  const line = `exec '${PHASEGATE}' -C '${root}' web --actions --port ${port}`;
  const child = spawn("script", ["-q", "-f", "-c", line, shown], { env: process.env, stdio: ["pipe", "ignore", "inherit"] });
  for (let tries = 0; tries < 200; tries++) {
    const url = /http:\S+token=\w+/.exec(readFileSync(shown, "utf8"))?.[0];
    if (url) return { child, url, shown: () => readFileSync(shown, "utf8") };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("nothing is served");
}

let passed = 0;
/** @param {string} what */
function ok(what) {
  passed += 1;
  console.log(`ok ${what}`);
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ARGS });
const page = await browser.newPage({ viewport: { width: 1200, height: 860 } });
const errors = [];
const requests = [];
page.on("pageerror", (error) => errors.push(error.message));
page.on("request", (request) => requests.push(request.url()));

const root = project();
gate(root, "start", "release");
stop(root);
let served = await serve(root, 0);
// Whatever happens, no server is left.
process.on("exit", () => served.child.kill("SIGTERM"));
await page.goto(served.url);

// The inbox, and a run whose last answer was a block: why.
await page.getByRole("button", { name: /release\/release/ }).click();
await page.getByText("Write NOTES.md, then stop again.").first().waitFor();
await page.getByText("not exists('NOTES.md')").first().waitFor();
assert.match(await page.locator("#inbox").innerText(), /working \(1\)/i);
assert.equal(await page.title(), "Phasegate");
ok("the why of a block");

// What would open the gate, when somebody asks.
await page.getByRole("button", { name: "What would open the gate?" }).click();
await page.locator(".opens").getByText("exists('NOTES.md')", { exact: true }).waitFor();
assert.match(await page.locator(".opens").innerText(), /ALLOW waiting/);
ok("what would open the gate");

// A link to a line, and the way back.
await page.locator("#line-1 a").click();
await page.getByText("Why line 1").waitFor();
assert.match(page.url(), /#run=release\/release&line=1$/);
await page.goBack();
await page.getByText("Why line 2").waitFor();
await page.goForward();
await page.reload();
await page.getByText("Why line 1").waitFor();
await page.getByRole("button", { name: /release\/release/ }).click();
await page.getByText("Why line 2").waitFor();
ok("a link to a line");

// While the page is open, the run comes to need somebody.
writeFileSync(join(root, "NOTES.md"), "x");
stop(root);
await page.locator("#inbox").getByText(/needs you \(1\)/i).waitFor();
assert.equal(await page.title(), "(1) Phasegate");
ok("from working to needs you, live");

// A server that is started again in between: the page goes on by itself, at its place.
const port = new URL(served.url).port;
const before = served.url;
served.child.kill("SIGTERM");
await page.getByText("The server is away").waitFor();
served = await serve(root, port);
await page.getByText("The token is missing or old").first().waitFor();
// A link that is opened without the token says what is missing, too.
const stranger = await (await browser.newContext()).newPage();
await stranger.goto(`${served.url.split("#")[0]}#run=release/release&line=1`);
await stranger.locator("#run").getByText("The token is missing or old").waitFor();
await stranger.close();
assert.notEqual(served.url, before);
await page.goto("about:blank");
await page.goto(served.url);
await page.getByRole("button", { name: /release\/release/ }).click();
await page.getByRole("button", { name: "approve", exact: true }).waitFor();
// The picture: where the run is, has been, and went last.
const picture = decodeURIComponent(await page.locator("img.picture").getAttribute("src"));
for (const part of [/class="box now"[^\n]*asking/, /1 visit · &lt; 1 min · 1 block/, /class="way last"[^\n]*working → asking/]) {
  assert.match(picture, part);
}
assert.ok(await page.locator("img.picture").evaluate((it) => /** @type {HTMLImageElement} */ (it).naturalWidth > 100));
assert.match(await page.locator(".health").innerText(), /chain intact/);
ok("a server that was started again");

// The approval, with the code that only the terminal shows.
await page.getByRole("button", { name: "approve", exact: true }).click();
// Somebody who types is not disturbed by what happens meanwhile.
await page.locator("textarea").fill("The notes");
const last = await page.locator(".timeline tbody a").first().innerText();
await page.locator("textarea").press("End");
stop(root);
await page.locator(".timeline tbody a").first().getByText(String(Number(last) + 1), { exact: true }).waitFor();
await page.keyboard.type(" are good.");
assert.equal(await page.locator("textarea").inputValue(), "The notes are good.");
// What the form was for is not there any more, and it says so.
await page.getByRole("button", { name: "Ask for a code" }).click();
await page.getByText("has moved on: you looked at line").waitFor();
await page.keyboard.press("Escape");
assert.equal(await page.locator("form").count(), 0);
assert.equal(await page.evaluate(() => document.activeElement?.textContent), "approve");
ok("a form while the run goes on");
await page.keyboard.press("Enter");
await page.locator("textarea").fill("The notes are good.");
await page.getByRole("button", { name: "Ask for a code" }).click();
await page.getByLabel("code").fill("000000");
await page.getByRole("button", { name: "approve", exact: true }).last().click();
let code;
for (let tries = 0; tries < 100 && !code; tries++) {
  code = /Code (\d{6})/.exec(served.shown())?.[1];
  await page.waitForTimeout(50);
}
if (code !== "000000") await page.getByText("this is not the code").waitFor();
await page.getByLabel("code").fill(code ?? "");
await page.getByRole("button", { name: "approve", exact: true }).last().click();
await page.locator("#inbox").getByText(/ended \(1\)/i).waitFor({ timeout: 8000 }).catch(async (error) => {
  console.log(code, served.shown(), await page.locator("article").innerText());
  throw error;
});
assert.match(gate(root, "log", "release/release"), /approve/);
ok("approved");

// A log that grows, with what would be run if it were HTML.
gate(root, "start", "ship");
stop(root, "s2");
await page.getByRole("button", { name: /ship\/ship/ }).click();
await page.getByRole("button", { name: "check.tests" }).click();
await page.locator("#log").getByText("step 3").waitFor();
const first = (await page.locator("#log").innerText()).length;
writeFileSync(join(root, "go-on"), "");
await page.locator("#log").getByText("step 4").waitFor();
// The log is apart from what is drawn again: it keeps its place and its focus.
await page.locator("#log").focus();
await page.getByText("The tests fail").first().waitFor();
assert.equal(await page.evaluate(() => document.activeElement?.id), "log");
assert.ok((await page.locator("#log").innerText()).length > first);
ok("a log that grows");

// A journal with pauses and repeats: it is told from its end, what says the same is one row, a pause is one row.
gate(root, "start", "release", "--name", "paced");
stopped(root, "s3");
const journal = join(root, ".phasegate/runs/release/paced/journal.jsonl");
const [begun, answered] = readFileSync(journal, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const blocked = { ...answered, from: "working", to: "working", answer: { decision: "block", reason: "Write NOTES.md." } };
const paced = [];
let minute = Date.parse("2026-03-02T09:00:00Z") / 60_000;
const add = (line, pause) => paced.push({ ...line, seq: paced.length + 1, at: new Date((minute += pause) * 60_000).toISOString() });
add(begun, 0);
for (let n = 0; n < 7; n++) add(blocked, 5);
add({ ...blocked, answer: { decision: "block", reason: "Something else." } }, 3 * 60);
for (let n = 0; n < 250; n++) add({ ...blocked, answer: { decision: "block", reason: `Number ${n}.` } }, n === 249 ? 3 * 24 * 60 : 1);
writeFileSync(journal, paced.map((line) => `${JSON.stringify(line)}\n`).join(""));
const ledger = join(root, ".phasegate/runs/release/paced/run.json");
const counted = JSON.parse(readFileSync(ledger, "utf8"));
counted.position.seq = paced.length;
writeFileSync(ledger, JSON.stringify(counted));
await page.getByRole("button", { name: /release\/paced/ }).click();
const rows = page.locator(".timeline tbody tr");
await rows.nth(10).waitFor();
assert.match(await rows.nth(0).innerText(), /^259\t.*BLOCK.*Number 249\.$/s);
assert.equal(await rows.nth(1).innerText(), "⋯ 3 days");
assert.match(await rows.nth(2).innerText(), /^258\t/);
assert.equal(await rows.count(), 201);
await page.getByRole("button", { name: "Older lines" }).click();
await rows.getByText("2–8", { exact: true }).waitFor();
const texts = await rows.allInnerTexts();
assert.deepEqual(texts.slice(-4).map((row) => row.split("\t")[0]), ["9", "⋯ 3 h", "2–8", "1"]);
assert.match(texts.at(-2) ?? "", /BLOCK ×7 in 30 min/);
assert.equal(await page.getByRole("button", { name: "Older lines" }).count(), 0);
// A link shows the why of its line: of one that stands in a row with others, when the page is there already, and of
// one that is older than what a page has at first.
const linked = async (line, row) => {
  const head = page.getByText(`Why line ${line}`, { exact: true });
  await head.waitFor();
  assert.equal(await page.locator("tr.shown a").innerText(), row);
  assert.ok(await head.evaluate((it) => it.getBoundingClientRect().top >= 0 && it.getBoundingClientRect().bottom <= innerHeight), `line ${line} is not in view`);
};
await rows.last().scrollIntoViewIfNeeded();
await page.evaluate(() => (location.hash = "#run=release/paced&line=5"));
await linked(5, "2–8");
await page.locator("#line-100 a").click();
await linked(100, "100");
await page.goto("about:blank");
await page.goto(`${served.url.split("#")[0]}#run=release/paced&line=30`);
await linked(30, "30");
assert.equal(await rows.nth(-2).innerText(), "⋯ 29 lines");
ok("a timeline with pauses, repeats and links");

// What agents write is text, wherever it stands: names, reasons, documents.
gate(root, "start", "release", "--name", "img");
const bad = "<img src=x onerror=window.hit=1><script>window.hit=1</script>\u001b[2J\u202e";
spawnSync(PHASEGATE, ["-C", root, "cancel", "release/img", "--reason", bad], { env });
await page.getByRole("button", { name: /release\/img/ }).click();
await page.getByText("window.hit=1").first().waitFor();
assert.equal(await page.evaluate(() => /** @type {any} */ (window).hit), undefined);
assert.equal(await page.locator("img:not(.picture)").count(), 0);
// Nor obeyed: what a terminal would do, and what turns the direction of what follows, is shown.
const shown = await page.locator("body").innerText();
assert.ok(!/[\u001b\u202a-\u202e]/.test(shown), shown);
ok("nothing that is shown is run");

// Many runs and a long journal.
for (let n = 0; n < 500; n++) {
  writeFileSync(join(root, `.phasegate/release/r${n}.json`), JSON.stringify({ phase: n % 2 ? "working" : "asking" }));
}
await page.goto("about:blank");
await page.goto(served.url);
await page.locator("#inbox button").nth(400).waitFor({ timeout: 60_000 });
ok(`${await page.locator("#inbox button").count()} runs`);

const own = new URL(served.url).origin;
// On a phone, and by keyboard.
await page.setViewportSize({ width: 380, height: 700 });
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 380), "it is wider than a phone");
await page.keyboard.press("Tab");
await page.keyboard.press("ArrowDown");
await page.keyboard.press("Enter");
await page.locator("h2").waitFor();
assert.equal(await page.locator("h2").innerText(), await page.locator("#inbox button").nth(1).locator("strong").innerText());
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 380), "a run is wider than a phone");
await page.emulateMedia({ colorScheme: "dark" });
assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(13, 17, 23)");
ok("a phone, the keyboard, the dark");

if (SHOTS) await pictures(browser, { gate, stopped, serve, folder: SHOTS });

assert.deepEqual(requests.filter((url) => !url.startsWith(own) && !url.startsWith("data:") && url !== "about:blank"), []);
assert.deepEqual(errors, []);
await browser.close();
console.log(`${passed} passed, 0 failed`);
process.exit(0);
