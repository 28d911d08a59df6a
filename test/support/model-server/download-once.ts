import { Bandwidth, DiskSpace } from '../../../src/agent-core/models/download/limits.ts'
import { download } from '../../../src/agent-core/models/download/download.ts'
import { createTransport } from '../../../src/agent-core/models/download/transport.ts'
import { silentLog } from '../silent-log.ts'

/** One download in a process of its own. Argument: JSON. Prints the bytes it began with, then the result. */
const { url, partialPath, killAfterBytes } = JSON.parse(process.argv[2] ?? '{}') as {
  url: string
  partialPath: string
  /** Ends itself with SIGKILL when so many bytes were received. */
  killAfterBytes?: number
}

/** Sees every byte as it is received. */
class Counting extends Bandwidth {
  received = 0

  override take(bytes: number): Promise<void> {
    if (first === undefined) {
      first = 0
      process.stderr.write('no progress was reported before the first byte\n')
    }
    this.received += bytes
    if (killAfterBytes !== undefined && this.received >= killAfterBytes) process.kill(process.pid, 'SIGKILL')
    return Promise.resolve()
  }
}

let first: number | undefined
await using transport = await createTransport({ env: {} })
const counting = new Counting()
const file = await download(
  { url, fileName: 'x.gguf' },
  {
    partialPath,
    signal: new AbortController().signal,
    log: silentLog,
    transport,
    bandwidth: counting,
    space: new DiskSpace(),
    onProgress: ({ doneBytes, phase }) => {
      if (phase !== undefined || first !== undefined) return
      first = doneBytes
      process.stdout.write(`${JSON.stringify({ beganWith: doneBytes })}\n`)
    },
  },
)
process.stdout.write(`${JSON.stringify({ ...file, received: counting.received })}\n`)
