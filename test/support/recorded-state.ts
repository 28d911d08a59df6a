import { spawn } from 'node:child_process'
import { cp, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { digestVariable, launchEnvironment } from '../../src/agent-core/servers/launch.ts'
import { digestOf } from '../../src/agent-core/servers/ledger.ts'
import { eventually } from './eventually.ts'
import { sampleScriptArgs, sampleServerPath } from './sample-servers/sample.ts'
import { freePort } from './free-port.ts'

/** What an agent left whose servers had their working directories in `work` and their output files in `logs`. */
const recorded = fileURLToPath(new URL('../fixtures/state-0.1.0', import.meta.url))

const ledgerFile = z.object({
  servers: z.array(
    z.looseObject({ key: z.string(), digest: z.string(), workingDirectory: z.string(), logFile: z.string() }),
  ),
})

export interface RecordedServer {
  readonly key: string
  /** The name of its working directory. */
  readonly name: string
  readonly pid: number
  readonly port: number
  readonly digest: string
}

/**
 * Puts the recorded state into a folder, with a real server in the place of each that it tells of: each goes on with the output file that
 * was recorded, a line every 50 ms.
 */
export async function restoreState(stateDir: string): Promise<AsyncDisposable & { servers: RecordedServer[] }> {
  await using stack = new AsyncDisposableStack()
  await cp(recorded, stateDir, { recursive: true })
  const platform = hostPlatform()
  const facts = { state: stateDir, server: sampleServerPath, boot: await platform.bootId() }
  for (const name of (await readdir(stateDir)).filter((one) => one.endsWith('.json'))) {
    const text = await readFile(join(stateDir, name), 'utf8')
    const filled = text.replaceAll(/\{(state|server|boot)\}/g, (_, what: keyof typeof facts) => facts[what])
    await writeFile(join(stateDir, name), filled, { mode: 0o600 })
  }
  const file = join(stateDir, 'ledger.json')
  const ledger = ledgerFile.parse(JSON.parse(await readFile(file, 'utf8')))
  const servers: RecordedServer[] = []
  for (const { key, digest, workingDirectory, logFile } of ledger.servers) {
    const { pid, port } = await startServer({ digest, workingDirectory, logFile })
    stack.defer(() => endGroup(pid))
    servers.push({ key, name: basename(workingDirectory), pid, port, digest })
  }
  const entries = await Promise.all(
    ledger.servers.map(async (entry, index) => {
      const { pid = 0, port } = servers[index] ?? {}
      const { startTime, commandLine = '' } = (await platform.process(pid)) ?? {}
      return { ...entry, port, process: { pid, startTime, commandLineDigest: digestOf(commandLine) } }
    }),
  )
  await writeFile(file, `${JSON.stringify({ schema: 1, servers: entries })}\n`)
  const owned = stack.move()
  return { servers, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

interface EarlierServer {
  readonly digest: string
  readonly workingDirectory: string
  readonly logFile: string
  /** Beside the port. */
  readonly args?: readonly string[]
}

/** As an agent starts it, up to its first answer. */
async function startServer({ digest, workingDirectory, logFile, args = noisy }: EarlierServer) {
  await mkdir(workingDirectory, { recursive: true, mode: 0o700 })
  await using output = await open(logFile, 'a', 0o600)
  const port = await freePort()
  const child = spawn(sampleServerPath, ['--port', String(port), ...args], {
    stdio: ['ignore', output.fd, output.fd],
    cwd: workingDirectory,
    env: { ...launchEnvironment(), [digestVariable]: digest },
    detached: true,
  })
  await once(child, 'spawn')
  child.unref()
  const isUp = () => fetch(`http://127.0.0.1:${port}/health`).then(({ ok }) => ok)
  await eventually(isUp, { what: 'the server answering' })
  return { pid: child.pid ?? 0, port }
}

const noisy = sampleScriptArgs({ noise: { lines: 1, lineBytes: 20, everyMs: 50 } })

/**
 * Puts another server in the place of the one that an agent left running there: as an earlier build would have started it, with its
 * arguments (beside the port) and what it noted as its digest.
 */
export async function replaceLeftServer(
  stateDir: string,
  { args, digest: base }: { args: readonly string[]; digest: string },
) {
  const file = join(stateDir, 'ledger.json')
  const { servers } = ledgerFile.parse(JSON.parse(await readFile(file, 'utf8')))
  const [entry] = servers
  const left = z.looseObject({ process: z.object({ pid: z.number() }) }).parse(entry).process.pid
  if (servers.length !== 1 || entry === undefined) throw new Error('Not one server was left.')
  endGroup(left)
  const platform = hostPlatform()
  await eventually(async () => (await platform.process(left)) === undefined, {
    what: 'the end of the server that was left',
  })
  // Behind the plus sign is the content of the model.
  const digest = `${base}+${entry.digest.split('+')[1] ?? ''}`
  const { pid, port } = await startServer({ ...entry, digest, args })
  const { startTime, commandLine = '' } = (await platform.process(pid)) ?? {}
  const noted = { ...entry, digest, port, process: { pid, startTime, commandLineDigest: digestOf(commandLine) } }
  await writeFile(file, `${JSON.stringify({ schema: 1, servers: [noted] })}\n`)
  return { pid, [Symbol.dispose]: () => endGroup(pid) }
}

/** It may have ended by now. */
function endGroup(groupId: number): void {
  try {
    process.kill(-groupId, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
