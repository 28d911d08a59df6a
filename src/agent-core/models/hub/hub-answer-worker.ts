import { parentPort } from 'node:worker_threads'
import { z } from 'zod'

/** Longer texts are refused where they are read; these many begin to be. */
const maxTextLength = 5_000
const maxKeys = 32

const input = z.object({ bytes: z.instanceof(Uint8Array), maxEntries: z.number() })

parentPort?.on('message', (message) => {
  const { bytes, maxEntries } = input.parse(message)
  const answer: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'))
  const short = Array.isArray(answer) ? answer.slice(0, maxEntries).map((entry) => flat(entry, 1)) : flat(answer, 1)
  parentPort?.postMessage(JSON.stringify(short))
})

/** What the Hub says in listings and of repositories is flat but for `lfs`: of the rest nothing is read. */
function flat(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return value.slice(0, maxTextLength)
  if (typeof value !== 'object' || value === null) return value
  if (depth < 0) return null
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, maxKeys)
      .map(([key, one]) => [key.slice(0, maxTextLength), flat(one, depth - 1)]),
  )
}
