import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { z } from 'zod'
import { startModelServer, type ServedModel } from '../test/support/model-server/model-server.ts'
import { installAgent } from './installed-agent.ts'
import type { Extent, Row } from './row.ts'

const MiB = 1024 ** 2
const sizeBytes = 1024 * MiB
/** Shows whether memory depends on the size. */
const largeBytes = 3 * sizeBytes
/** Of a server that gives no more to one connection, as hubs and their caches do. */
const limitedBytesPerSecond = 40_000_000
const killAfterBytes = 30 * MiB + 12_345

const cost = z.object({ seconds: z.number(), grownMiB: z.number(), delayMs: z.number(), sha256: z.string() })
const beginning = z.object({ beganWith: z.number() })

/** Downloads over loopback beside `curl | sha256sum` of the same file, bundled and started as the agent is, and what a kill costs. */
export async function modelDownloads({ downloadRuns, downloadKills }: Extent): Promise<Row[]> {
  const [memory, disk] = [await folderIn('/dev/shm'), await folderIn(tmpdir())]
  await using opened = new AsyncDisposableStack()
  for (const folder of [memory, disk]) opened.defer(() => rm(folder, { recursive: true, force: true }))
  const server = opened.use(await startModelServer())
  const launcher = await installed(disk, import.meta.dirname, 'time-download.ts')
  const model = await server.serve('/model.gguf', { sizeBytes, seed: 'bench', etag: '"bench"' })
  const sha256 = model.content.sha256()
  const [shares, diskShares, grown, delays]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (let run = 0; run < downloadRuns; run += 1) {
    const peer = await timeCurl(model, sha256)
    const ours = await timeDownload(launcher, model, memory, sha256)
    const onDisk = await timeDownload(launcher, model, disk, sha256)
    shares.push((100 * ours.seconds) / peer)
    diskShares.push((100 * onDisk.seconds) / peer)
    grown.push(ours.grownMiB, onDisk.grownMiB)
    delays.push(ours.delayMs, onDisk.delayMs)
  }
  const limited = await server.serve('/limited.gguf', {
    sizeBytes: sizeBytes / 2,
    seed: 'limited',
    etag: '"limited"',
    bytesPerSecond: limitedBytesPerSecond,
  })
  const limitedShares = await sharesOfOne(launcher, limited, memory, downloadRuns)
  const freeShares = await sharesOfOne(launcher, model, memory, downloadRuns)
  const large = await server.serve('/large.gguf', { sizeBytes: largeBytes, seed: 'large', etag: '"large"' })
  const { grownMiB } = await timeDownload(launcher, large, disk, large.content.sha256())
  return [
    {
      what: 'download of 1 GiB with SHA-256, time beside curl | sha256sum',
      unit: '%',
      values: shares,
      goal: 143,
      note: '143 % of the time are 70 % of the speed; written to memory, as curl writes nothing',
    },
    { what: 'the same, written to this disk and synced', unit: '%', values: diskShares },
    {
      what: 'download over several connections beside one, from a server that gives 40 MB/s to each',
      unit: '%',
      values: limitedShares,
      goal: 80,
      note: 'several connections are worth their code while they win a fifth there',
    },
    { what: 'the same, from a server that limits none', unit: '%', values: freeShares },
    { what: 'memory that a download of 1 GiB adds', unit: 'MiB', values: grown, goal: 40 },
    { what: 'memory that a download of 3 GiB adds', unit: 'MiB', values: [grownMiB], goal: 40 },
    { what: 'event loop delay during a download (p99)', unit: 'ms', values: delays, goal: 50 },
    {
      what: 'lost by a kill during a download',
      unit: 'MiB',
      values: await lostByKills(model, disk, downloadKills),
      goal: 64,
    },
  ]
}

async function folderIn(parent: string): Promise<string> {
  const there = await access(parent).then(
    () => true,
    () => false,
  )
  return mkdtemp(join(there ? parent : tmpdir(), 'metalbar-downloads-'))
}

function installed(folder: string, ...entry: string[]): Promise<string> {
  return installAgent(join(folder, entry.at(-1) ?? ''), { entry: join(...entry) })
}

async function timeCurl({ url }: ServedModel, sha256: string): Promise<number> {
  const startedAt = performance.now()
  const { stdout } = await execa('sh', ['-c', 'curl -fsS "$1" | sha256sum', 'sh', url])
  if (!stdout.startsWith(sha256)) throw new Error(`curl got something else: ${stdout}`)
  return (performance.now() - startedAt) / 1000
}

async function timeDownload(
  launcher: string,
  { url }: ServedModel,
  folder: string,
  sha256: string,
  connections: readonly string[] = [],
): Promise<z.infer<typeof cost>> {
  const partialPath = join(folder, 'model.partial')
  const { stdout } = await execa(launcher, [url, partialPath, ...connections])
  await rm(partialPath)
  const spent = cost.parse(JSON.parse(stdout))
  if (spent.sha256 !== sha256) throw new Error(`The download got something else: ${spent.sha256}`)
  return spent
}

/** The time with as many connections as the agent has, in percent of that with one, of each run. */
async function sharesOfOne(launcher: string, model: ServedModel, folder: string, runs: number): Promise<number[]> {
  const sha256 = model.content.sha256()
  const shares: number[] = []
  for (let run = 0; run < runs; run += 1) {
    const one = await timeDownload(launcher, model, folder, sha256, ['1'])
    const several = await timeDownload(launcher, model, folder, sha256)
    shares.push((100 * several.seconds) / one.seconds)
  }
  return shares
}

async function lostByKills({ url }: ServedModel, folder: string, kills: number): Promise<number[]> {
  const launcher = await installed(folder, import.meta.dirname, '../test/support/model-server', 'download-once.ts')
  const partialPath = join(folder, 'killed.partial')
  const begins: number[] = []
  for (let life = 0; life <= kills; life += 1) {
    const input = JSON.stringify({ url, partialPath, killAfterBytes })
    const { stdout, signal } = await execa(launcher, [input], { reject: false })
    if (signal !== 'SIGKILL') throw new Error(`The download was not killed: ${stdout}`)
    begins.push(beginning.parse(JSON.parse(stdout.split('\n')[0] ?? '')).beganWith)
  }
  return begins.slice(1).map((began, life) => ((begins[life] ?? 0) + killAfterBytes - began) / MiB)
}
