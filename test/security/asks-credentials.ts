import { monitorEventLoopDelay } from 'node:perf_hooks'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { messageOf } from '../../src/agent-core/util/message-of.ts'

/**
 * Asks for the credentials of one kubeconfig after the other, for several requests at once, as a process of its own that can be ended; prints
 * what the requests got, and for how many milliseconds everything else was held up.
 */
const delay = monitorEventLoopDelay({ resolution: 10 })

const ask = async (context: PinnedContext): Promise<string> => {
  const { headers } = await context.connection.authenticated()
  return headers['authorization']?.toString() ?? 'nothing'
}

const askAll = (file: string): Promise<string[]> =>
  PinnedContext.load({ file, env: { PATH: '/usr/bin:/bin' }, pluginTimeLimitMs: 500 }).then(
    (context) => Promise.all(Array.from({ length: 3 }, () => ask(context).catch(messageOf))),
    (error: unknown) => [messageOf(error)],
  )

const told: { readonly got: readonly string[]; readonly heldMs: number }[] = []
for (const file of process.argv.slice(2)) {
  delay.reset()
  delay.enable()
  const got = await askAll(file)
  // The last delay counts once the loop has turned again.
  await new Promise((resolve) => setTimeout(resolve, 30))
  delay.disable()
  told.push({ got, heldMs: delay.max / 1e6 })
}
process.stdout.write(JSON.stringify(told))
