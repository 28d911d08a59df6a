import { execa } from 'execa'
import { createInterface } from 'node:readline'

/** What llama-server says in its log that it allocated, in bytes. */
export interface ServerSizes {
  weights: number
  kv: number
  recurrent: number
  /** The compute buffers, and that of the outputs. */
  compute: number
  readonly lines: string[]
}

const mebibyte = 1024 ** 2
const patterns: readonly (readonly [item: 'weights' | 'kv' | 'recurrent' | 'compute', pattern: RegExp])[] = [
  ['weights', /model buffer size = +([\d.]+) MiB/],
  ['kv', /KV buffer size = +([\d.]+) MiB/],
  ['recurrent', /RS buffer size = +([\d.]+) MiB/],
  ['compute', /(?:compute|output) buffer size = +([\d.]+) MiB/],
]

/** Starts it until it has allocated everything, reads what it says about that, and ends it. Throws what it says where it fails. */
export async function serverSizes(executable: string, args: readonly string[]): Promise<ServerSizes> {
  const sizes: ServerSizes = { weights: 0, kv: 0, recurrent: 0, compute: 0, lines: [] }
  const said: string[] = []
  const server = execa(
    executable,
    [...args, '--host', '127.0.0.1', '--port', '0', '--no-warmup', '-fit', 'off', '-lv', '5'],
    {
      all: true,
      buffer: false,
      reject: false,
      forceKillAfterDelay: 2_000,
    },
  )
  let complete = false
  for await (const line of createInterface({ input: server.all })) {
    said.push(line)
    for (const [item, pattern] of patterns) {
      const mebibytes = pattern.exec(line)?.[1]
      if (mebibytes === undefined) continue
      sizes[item] += Number(mebibytes) * mebibyte
      sizes.lines.push(line)
    }
    if (!/initializing, n_slots =|server is listening/.test(line)) continue
    complete = true
    server.kill('SIGKILL')
    break
  }
  await server
  if (!complete) throw new Error(`llama-server ended before it had loaded the model:\n${said.slice(-25).join('\n')}`)
  return sizes
}
