import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Bandwidth, DiskSpace } from '../src/agent-core/models/download/limits.ts'
import { download } from '../src/agent-core/models/download/download.ts'
import { createTransport } from '../src/agent-core/models/download/transport.ts'
import { silentLog } from '../test/support/silent-log.ts'
import { memoryOf, peakMemoryOf } from './proc.ts'

/** One download in a process of its own. Arguments: address, partial file, connections (else as the agent has it). Prints what it cost. */
const [url = '', partialPath = '', connections] = process.argv.slice(2)

await using transport = await createTransport({ env: {} })
const { residentMiB } = memoryOf(process.pid)
const delays = monitorEventLoopDelay({ resolution: 5 })
delays.enable()
const startedAt = performance.now()
const { sha256 } = await download(
  { url, fileName: 'model.gguf' },
  {
    partialPath,
    signal: new AbortController().signal,
    log: silentLog,
    transport,
    bandwidth: new Bandwidth(),
    space: new DiskSpace({ reserveBytes: 0 }),
    connections: connections === undefined ? undefined : Number(connections),
  },
)
const seconds = (performance.now() - startedAt) / 1000
delays.disable()
// Not the system's count of it, which begins with what the parent process had.
const mostMiB = peakMemoryOf(process.pid)
process.stdout.write(
  JSON.stringify({
    seconds,
    grownMiB: mostMiB - residentMiB,
    delayMs: delays.percentile(99) / 1e6,
    sha256,
  }),
)
