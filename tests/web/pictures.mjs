// The pictures of the documentation: a project as one may find it, with runs that stand differently.
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const RELEASE = `name = "release"
about = "Notes, tests, and a person's word before a version goes out."
initial = "writing"
[action.approve]
about = "Let it go out"
by = "human"
param.reason = { type = "string", about = "Why" }
[action.send-back]
about = "Back to the notes"
by = "human"
param.reason = { type = "string", about = "What is missing" }
[check.tests]
run = ["sh", "tests.sh"]
[phase.writing]
about = "The agent writes the release notes."
rules = [
  { on = "stop", when = "not exists('NOTES.md')", block = "Write NOTES.md: what changes for users, newest first. Then stop again." },
  { on = "stop", goto = "testing" },
]
[phase.testing]
about = "The tests pass on the files as they are."
rules = [
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\\n{{ check.tests.tail }}\\nFix them, then stop again." },
  { on = "stop", goto = "approval", allow = "waiting", until = "human", message = "Notes and tests are fine. Does 1.4.0 go out?" },
]
[phase.approval]
about = "A person decides."
rules = [
  { on = "approve", goto = "published" },
  { on = "send-back", goto = "writing" },
  { on = "stop", allow = "waiting", until = "human", message = "Notes and tests are fine. Does 1.4.0 go out?" },
]
[phase.published]
final = true
`;

const FIX = `name = "fix"
about = "A bug is fixed when a test shows it."
initial = "fixing"
[check.tests]
run = ["sh", "fails.sh"]
[phase.fixing]
about = "The agent fixes the bug."
rules = [
  { on = "stop", when = "not exists('tests/cart_test.py')", block = "Write a test that shows the bug: tests/cart_test.py." },
  { on = "stop", when = "not check.tests.ok", block = "The tests fail:\\n{{ check.tests.tail }}\\nFix them, then stop again." },
  { on = "stop", goto = "fixed", allow = "done" },
]
[phase.fixed]
final = true
`;

/**
 * @param {import("playwright-core").Browser} browser
 * @param {{gate: Function, stopped: Function, serve: Function, folder: string}} with_
 */
export async function pictures(browser, { gate, stopped, serve, folder }) {
  const root = join(mkdtempSync(join(tmpdir(), "phasegate-pictures-")), "shop");
  mkdirSync(join(root, ".phasegate/workflows"), { recursive: true });
  mkdirSync(join(root, "tests"));
  const file = (name, text) => writeFileSync(join(root, name), text);
  file(".phasegate/workflows/release.toml", RELEASE);
  file(".phasegate/workflows/fix.toml", FIX);
  file("tests.sh", "echo '2 failed: test_tax, test_total'; exit 1\n");
  file("fails.sh", "echo 'FAILED tests/cart_test.py::test_empty_cart'; echo '41 passed, 1 failed'; exit 1\n");
  gate(root, "git");

  gate(root, "start", "release", "--name", "1.3.0");
  gate(root, "cancel", "release/1.3.0", "--reason", "skipped");
  // Written twice, tested thrice, sent back once.
  gate(root, "start", "release", "--name", "1.4.0");
  await stopped(root, "a");
  file("NOTES.md", "# 1.4.0\n");
  await stopped(root, "a");
  file("tests.sh", "echo '43 passed'\n");
  await stopped(root, "a");
  gate(root, "person", "do", "release", "send-back", "release/1.4.0", "--reason", "The tax change is missing.");
  file("NOTES.md", "# 1.4.0\n\n- Tax is rounded per line.\n");
  await stopped(root, "a");
  gate(root, "start", "fix", "--name", "slow-search");
  await stopped(root, "c");
  await stopped(root, "c", true);
  gate(root, "start", "fix", "--name", "empty-cart");
  await stopped(root, "b");
  file("tests/cart_test.py", "x\n");
  await stopped(root, "b");

  const served = await serve(root, 0);
  const page = await browser.newPage({ viewport: { width: 1200, height: 1000 }, colorScheme: "light" });
  await page.goto(served.url);
  await page.getByRole("button", { name: /release\/1.4.0/ }).click();
  await page.getByText("chain intact").waitFor();
  await page.screenshot({ path: join(folder, "web-run.png") });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 390, height: 780 });
  await page.screenshot({ path: join(folder, "web-inbox.png") });
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.getByRole("button", { name: /fix\/empty-cart/ }).click();
  await page.getByRole("button", { name: "What would open the gate?" }).click();
  await page.locator(".opens").waitFor();
  await page.screenshot({ path: join(folder, "web-why.png") });
  served.child.kill("SIGTERM");
}
