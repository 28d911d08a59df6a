import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Bandwidth } from '../src/agent-core/models/download/bandwidth.ts'
import { download } from '../src/agent-core/models/download/download.ts'
import { createTransport } from '../src/agent-core/models/download/transport.ts'
import { silentLog } from '../test/support/silent-log.ts'

/** One download in a process of its own. Arguments: address, partial file. Prints what it cost. */
const [url = '', partialPath = ''] = process.argv.slice(2)

await using transport = await createTransport({ env: {} })
const before = process.memoryUsage.rss()
let most = before
const sampling = setInterval(() => {
  most = Math.max(most, process.memoryUsage.rss())
}, 20)
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
    reserveBytes: 0,
  },
)
const seconds = (performance.now() - startedAt) / 1000
delays.disable()
clearInterval(sampling)
process.stdout.write(
  JSON.stringify({ seconds, grownMiB: (most - before) / 1024 ** 2, delayMs: delays.percentile(99) / 1e6, sha256 }),
)
