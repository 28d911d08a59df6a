import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { z } from 'zod'
import { startModelServer } from '../test/support/model-server/model-server.ts'
import type { Row } from './row.ts'

const MiB = 1024 ** 2
const sizeBytes = 1024 * MiB
const runs = 5
const kills = 10
const cost = z.object({ seconds: z.number(), grownMiB: z.number(), delayMs: z.number(), sha256: z.string() })
const beginning = z.object({ beganWith: z.number() })

/** A download over loopback beside `curl | sha256sum` of the same file, and what a kill costs. */
export async function modelDownloads(): Promise<Row[]> {
  const [memory, disk] = [await folderIn('/dev/shm'), await folderIn(tmpdir())]
  await using opened = new AsyncDisposableStack()
  for (const folder of [memory, disk]) opened.defer(() => rm(folder, { recursive: true, force: true }))
  const server = opened.use(await startModelServer())
  const { url, content } = await server.serve('/model.gguf', { sizeBytes, seed: 'bench', etag: '"bench"' })
  const sha256 = content.sha256()
  const [shares, diskShares, grown, delays]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (let run = 0; run < runs; run += 1) {
    const peer = await timeCurl(url, sha256)
    const ours = await timeDownload(url, join(memory, 'model.partial'), sha256)
    const onDisk = await timeDownload(url, join(disk, 'model.partial'), sha256)
    shares.push((100 * ours.seconds) / peer)
    diskShares.push((100 * onDisk.seconds) / peer)
    grown.push(ours.grownMiB, onDisk.grownMiB)
    delays.push(ours.delayMs, onDisk.delayMs)
  }
  return [
    {
      what: 'download of 1 GiB with SHA-256, time beside curl | sha256sum',
      unit: '%',
      values: shares,
      goal: 143,
      note: '143 % of the time are 70 % of the speed; written to memory, as curl writes nothing',
    },
    { what: 'the same, written to this disk and synced', unit: '%', values: diskShares },
    { what: 'memory that a download of 1 GiB adds', unit: 'MiB', values: grown, goal: 40 },
    { what: 'event loop delay during a download (p99)', unit: 'ms', values: delays, goal: 50 },
    { what: 'lost by a kill during a download', unit: 'MiB', values: await lostByKills(url, disk), goal: 8 },
  ]
}

async function folderIn(parent: string): Promise<string> {
  const there = await access(parent).then(
    () => true,
    () => false,
  )
  return mkdtemp(join(there ? parent : tmpdir(), 'metalbar-downloads-'))
}

async function timeCurl(url: string, sha256: string): Promise<number> {
  const startedAt = performance.now()
  const { stdout } = await execa('sh', ['-c', 'curl -fsS "$1" | sha256sum', 'sh', url])
  if (!stdout.startsWith(sha256)) throw new Error(`curl got something else: ${stdout}`)
  return (performance.now() - startedAt) / 1000
}

async function timeDownload(url: string, partialPath: string, sha256: string): Promise<z.infer<typeof cost>> {
  const { stdout } = await execa(process.execPath, [join(import.meta.dirname, 'time-download.ts'), url, partialPath])
  await rm(partialPath, { force: true })
  const spent = cost.parse(JSON.parse(stdout))
  if (spent.sha256 !== sha256) throw new Error(`The download got something else: ${spent.sha256}`)
  return spent
}

async function lostByKills(url: string, folder: string): Promise<number[]> {
  const once = join(import.meta.dirname, '../test/support/model-server/download-once.ts')
  const partialPath = join(folder, 'killed.partial')
  const killAfterBytes = 30 * MiB + 12_345
  const begins: number[] = []
  for (let life = 0; life <= kills; life += 1) {
    const input = JSON.stringify({ url, partialPath, killAfterBytes })
    const { stdout } = await execa(process.execPath, [once, input], { reject: false })
    begins.push(beginning.parse(JSON.parse(stdout.split('\n')[0] ?? '')).beganWith)
  }
  return begins.slice(1).map((began, life) => ((begins[life] ?? 0) + killAfterBytes - began) / MiB)
}
