import { setTimeout as delay } from 'node:timers/promises'
import type { ClusterConnection } from '../control-plane/admin-client.ts'
import { eventually } from '../eventually.ts'
import { PublishedPort } from '../published-port.ts'

const askEveryMs = 10

/** On performance.now. */
interface Gap {
  readonly from: number
  readonly to: number
}

/** Asks where pods are sent, again and again, and notes when nobody answers. */
export async function followService(connection: ClusterConnection, namespace: string, name: string) {
  const port = new PublishedPort(connection, namespace, name)
  await eventually(() => port.now !== undefined)
  const ended = new AbortController()
  const gaps: Gap[] = []
  let silentSince: number | undefined
  const asking = (async () => {
    while (!ended.signal.aborted) {
      const isAnswered = await fetch(`http://127.0.0.1:${port.now ?? 1}/health`).then(
        ({ ok }) => ok,
        () => false,
      )
      if (!isAnswered) silentSince ??= performance.now()
      else if (silentSince !== undefined) {
        gaps.push({ from: silentSince, to: performance.now() })
        silentSince = undefined
      }
      await delay(askEveryMs)
    }
  })()
  return {
    /** Once it answers again. */
    end: async () => {
      await eventually(() => silentSince === undefined)
      ended.abort()
      await asking
      await port[Symbol.asyncDispose]()
      return { gaps }
    },
  }
}
