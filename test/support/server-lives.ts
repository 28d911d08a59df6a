import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isOver } from '../../src/agent-core/servers/server-state.ts'
import type { Servers } from '../../src/agent-core/servers/servers.ts'
import { launchEnvironment, type ServerLaunch } from '../../src/agent-core/servers/launch.ts'
import { eventually } from './eventually.ts'
import { sampleServerPath } from './sample-servers/sample.ts'

/** What this process, its children and its servers' output take. Linux. */
export interface Held {
  readonly openFiles: number
  readonly zombies: number
  readonly threads: number
  readonly logFiles: number
  readonly logBytes: number
  /** After a garbage collection. */
  readonly heapBytes: number
  readonly residentBytes: number
}

export async function held(runsFolder: string): Promise<Held> {
  collectGarbage()
  const [openFiles, threads, states, sizes] = await Promise.all([
    readdir('/proc/self/fd'),
    readdir('/proc/self/task'),
    childStates(),
    sizesIn(runsFolder),
  ])
  const { heapUsed, rss } = process.memoryUsage()
  return {
    openFiles: openFiles.length,
    zombies: states.filter((state) => state === 'Z').length,
    threads: threads.length,
    logFiles: sizes.length,
    logBytes: sizes.reduce((sum, size) => sum + size, 0),
    heapBytes: heapUsed,
    residentBytes: rss,
  }
}

/** Lives in turn: an error at start, a stop while starting, noise and a crash. */
const shellScripts = [
  'echo "error: no model"; exit 3',
  'echo loading; exec sleep 60',
  'i=0; while [ $i -lt 2000 ]; do echo "noise $i of a server that says a lot"; i=$((i+1)); done; kill -SEGV $$',
]
/** The sample server takes its time to start: every so many lives are one of it, up to readiness. */
const sampleEvery = 20

/** Starts a server `count` times and waits for its end each time, over four keys at the same time. */
export async function lives(room: { readonly servers: Servers }, count: number): Promise<void> {
  let next = 0
  const worker = async (key: string) => {
    while (next < count) await live(room, key, next++)
  }
  await Promise.all(['a/a', 'a/b', 'a/c', 'a/d'].map(worker))
}

async function live({ servers }: { readonly servers: Servers }, key: string, index: number): Promise<void> {
  const what = { uid: 'uid-1', digest: 'digest-1' }
  const common = {
    ...what,
    env: launchEnvironment(),
    port: { kind: 'ephemeral' } as const,
    stopGraceMs: 2_000,
  }
  const isSample = index % sampleEvery === 0
  const script = shellScripts[index % shellScripts.length] ?? ''
  const launch: ServerLaunch = isSample
    ? { ...common, executable: sampleServerPath, argv: (port) => ['--port', String(port)] }
    : { ...common, executable: '/bin/sh', argv: () => ['-c', script] }
  servers.start(key, launch)
  const endsItself = !isSample && !script.includes('sleep')
  const isReached = () => {
    const state = servers.get(key)
    if (state === undefined) return false
    if (endsItself || isOver(state)) return isOver(state)
    return isSample ? state.kind === 'ready' : state.kind === 'starting' && state.pid !== undefined
  }
  await eventually(isReached, { what: `life ${index} of ${key}` })
  const report = await servers.stop(key)
  if (!report.stopped) throw new Error(report.message)
}

async function childStates(): Promise<string[]> {
  const tasks = await readdir('/proc/self/task')
  const lists = await Promise.all(tasks.map((task) => readIfThere(`/proc/self/task/${task}/children`)))
  const pids = lists.flatMap((list) => list.split(' ').filter(Boolean))
  const stats = await Promise.all(pids.map((pid) => readIfThere(`/proc/${pid}/stat`)))
  return stats.map((text) => text.slice(text.lastIndexOf(')') + 2).charAt(0))
}

const readIfThere = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '')

async function sizesIn(folder: string): Promise<number[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = found.filter((one) => one.isFile())
  return Promise.all(files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size))
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
}
