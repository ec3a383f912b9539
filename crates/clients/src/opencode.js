// Phasegate: asks the gate when the agent stops, and goes on with what the gate says.
// `phasegate init` has written this file, and `phasegate uninstall` removes it.
import { spawn } from "node:child_process"

export const Phasegate = async ({ client, directory }) => {
  // Sessions that a block has sent on, and sessions whose stop is being answered.
  const sentOn = new Set()
  const asking = new Set()

  const ask = (event, payload) =>
    new Promise((resolve) => {
      const child = spawn("phasegate", ["hook", event, "--client", "opencode"], {
        cwd: directory,
        stdio: ["pipe", "pipe", "ignore"],
      })
      let answer = ""
      child.stdout.on("data", (part) => (answer += part))
      child.stdin.on("error", () => {})
      child.on("error", () => resolve({}))
      child.on("close", () => {
        try {
          resolve(JSON.parse(answer))
        } catch {
          resolve({})
        }
      })
      child.stdin.end(JSON.stringify({ hook_event_name: event, cwd: directory, ...payload }))
    })

  const stopped = async (id) => {
    const { data: session } = await client.session.get({ path: { id } })
    if (session?.parentID) {
      await ask("subagent-stop", { session_id: session.parentID })
      return
    }
    const { data: messages } = await client.session.messages({ path: { id } })
    const last = messages?.findLast((message) => message.info.role === "assistant")
    // The user has interrupted it, or it failed: neither is a stop.
    if (!last || last.info.error) return
    const texts = last.parts.filter((part) => part.type === "text").map((part) => part.text)
    const answer = await ask("stop", {
      session_id: id,
      stop_hook_active: sentOn.delete(id),
      last_assistant_message: texts.join("\n"),
    })
    if (answer.systemMessage) {
      await client.tui.showToast({ body: { message: answer.systemMessage, variant: "info" } }).catch(() => {})
    }
    if (answer.decision === "block") {
      sentOn.add(id)
      await client.session.promptAsync({
        path: { id },
        body: { agent: last.info.mode, parts: [{ type: "text", text: answer.reason }] },
      })
    }
  }

  return {
    event: async ({ event }) => {
      const id = event.properties?.sessionID
      if (event.type === "session.deleted" && event.properties?.info?.id) {
        await ask("session-end", { session_id: event.properties.info.id })
      }
      if (event.type !== "session.idle" || asking.has(id)) return
      asking.add(id)
      try {
        await stopped(id)
      } catch {
        // A failure of ours must not hold the session.
      } finally {
        asking.delete(id)
      }
    },
  }
}
