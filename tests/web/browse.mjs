// Looks at the page as a person does: in a browser, while things happen.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

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
  writeFileSync(join(root, "slow.sh"), 'for n in 1 2 3 4 5 6; do echo "step $n <img src=x onerror=window.hit=1>"; sleep 0.5; done; exit 1\n');
  return root;
}

const env = { ...process.env, PHASEGATE_TRUST_ALL: "1" };

/** @param {string} root @param {string[]} args */
function gate(root, ...args) {
  const ran = spawnSync(PHASEGATE, ["-C", root, ...args], { env, encoding: "utf8" });
  assert.equal(ran.status, 0, `${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout;
}

/** A stop of a session, as its client tells it. */
function stop(root, session = "s1") {
  const payload = { session_id: session, cwd: root, hook_event_name: "Stop", stop_hook_active: false, transcript_path: join(root, "none.jsonl") };
  return spawn(PHASEGATE, ["hook", "stop", "--client", "claude"], { cwd: root, env, stdio: ["pipe", "ignore", "inherit"] }).stdin.end(JSON.stringify(payload));
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

async function shot(page, name) {
  if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}.png`) });
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
await shot(page, "why");
ok("the why of a block");

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
await page.getByText("The token is missing or old").waitFor();
assert.notEqual(served.url, before);
await page.goto("about:blank");
await page.goto(served.url);
await page.getByRole("button", { name: /release\/release/ }).click();
await page.getByRole("button", { name: "approve", exact: true }).waitFor();
await shot(page, "run");
ok("a server that was started again");

// The approval, with the code that only the terminal shows.
await page.getByRole("button", { name: "approve", exact: true }).click();
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
await page.getByRole("cell", { name: "check.tests" }).click();
await page.locator("#log").getByText("step 1").waitFor();
const first = (await page.locator("#log").innerText()).length;
await page.locator("#log").getByText("step 4").waitFor();
assert.ok((await page.locator("#log").innerText()).length > first);
ok("a log that grows");

// What agents write is text, wherever it stands: names, reasons, documents.
gate(root, "start", "release", "--name", "img");
const bad = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
spawnSync(PHASEGATE, ["-C", root, "cancel", "release/img", "--reason", bad], { env });
await page.getByRole("button", { name: /release\/img/ }).click();
await page.getByText("window.hit=1").first().waitFor();
assert.equal(await page.evaluate(() => /** @type {any} */ (window).hit), undefined);
assert.equal(await page.locator("img:not(.picture)").count(), 0);
await shot(page, "inbox");
ok("nothing that is shown is run");

// Many runs and a long journal.
for (let n = 0; n < 500; n++) {
  writeFileSync(join(root, `.phasegate/release/r${n}.json`), JSON.stringify({ phase: n % 2 ? "working" : "asking" }));
}
await page.goto("about:blank");
await page.goto(served.url);
await page.locator("#inbox button").nth(400).waitFor({ timeout: 60_000 });
ok(`${await page.locator("#inbox button").count()} runs`);

// On a phone, and by keyboard.
await page.setViewportSize({ width: 380, height: 700 });
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 380), "it is wider than a phone");
await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.locator("h2").waitFor();
await page.emulateMedia({ colorScheme: "dark" });
assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(13, 17, 23)");
ok("a phone, the keyboard, the dark");

const own = new URL(served.url).origin;
assert.deepEqual(requests.filter((url) => !url.startsWith(own) && !url.startsWith("data:") && url !== "about:blank"), []);
assert.deepEqual(errors, []);
await browser.close();
console.log(`${passed} passed, 0 failed`);
process.exit(0);
