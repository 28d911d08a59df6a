import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { agentSnapshot, type AgentSnapshot } from '../../src/contract/snapshot.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { agentEntryVariable } from './built-agent/entry.ts'
import { compileCacheOfRun } from './compile-cache/compile-cache.ts'
import { eventually } from './eventually.ts'
import { runVerb } from './run-verb.ts'
import { removeFolder } from './temporary-folder.ts'

export interface AgentProcessOptions {
  /** After the flags that keep the agent inside its folder; the last one given wins. */
  readonly args?: readonly string[]
  /** Content of the kubeconfig; absent = there is none yet (`writeKubeconfig`). */
  readonly kubeconfig?: string
  /** Added to an environment that holds nothing of this machine but PATH. */
  readonly env?: Readonly<Record<string, string>>
  /** Shared with another agent, or with its own earlier life; not removed at the end. */
  readonly folder?: string
  /** False = only `args`, as a person would type them. */
  readonly usualFlags?: boolean
  /** For a preload that changes modules, which the built agent has no more. */
  readonly fromSource?: boolean
  /** In place of Node.js and the agent's entry. */
  readonly command?: readonly string[]
  /** Takes from root what lets it read and write every file, so that modes count; needs `setpriv` (see `missingSetpriv`). */
  readonly obeysFileModes?: boolean
  /** A program, with its arguments, that becomes the agent in place of a plain start. */
  readonly startedBy?: readonly string[]
}

export interface AgentExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export type LogLine = z.infer<typeof logLine>

const source = path.resolve(import.meta.dirname, '../../src/cli/metal-agent.ts')
/** Starts several times as fast as the source; absent outside of a run that builds it. */
const built = process.env[agentEntryVariable]
const logLine = z.looseObject({ ts: z.string(), level: z.string(), msg: z.string() })
/** Longer than any orderly shutdown; after it the test has failed anyway. */
const stopLimitMs = 40_000

/** `metal-agent` as a process of its own, with everything it writes in a folder that is gone at the end. */
export class AgentProcess implements AsyncDisposable {
  readonly folder: string
  readonly kubeconfigFile: string
  readonly stateDir: string
  readonly exited: Promise<AgentExit>
  stdout = ''
  stderr = ''
  /** Undefined while it runs. */
  exit: AgentExit | undefined
  readonly #child: ChildProcess
  readonly #lines: LogLine[] = []
  /** How much of stderr is in `#lines`. */
  #readUpTo = 0
  readonly #keepFolder: boolean

  private constructor(folder: string, { args = [], env = {}, usualFlags = true, ...options }: AgentProcessOptions) {
    this.folder = folder
    this.#keepFolder = options.folder !== undefined
    this.kubeconfigFile = path.join(folder, 'kubeconfig')
    this.stateDir = path.join(folder, 'state')
    const usual = [
      ...['--kubeconfig', this.kubeconfigFile, '--state-dir', this.stateDir],
      ...['--model-store', path.join(folder, 'models'), '--allowed-model-roots', folder],
      ...['--allowed-download-hosts', '127.0.0.1,localhost'],
      ...['--port', '0', '--client-port', '0', '--host-ip', '192.0.2.10'],
      // One that this machine has is no part of a test.
      ...['--ollama-port', '0'],
      // Many agents share this machine and its one port for relays.
      ...(args.includes('--ingress-port') ? [] : ['--publish', 'direct']),
    ]
    const command = [
      ...(options.startedBy ?? []),
      ...(options.obeysFileModes === true && isRoot ? setpriv : []),
      ...(options.command ?? [process.execPath, options.fromSource === true ? source : (built ?? source)]),
      ...(usualFlags ? usual : []),
      ...args,
    ]
    this.#child = spawn(command[0] ?? '', command.slice(1), {
      cwd: folder,
      env: {
        HOME: path.join(folder, 'home'),
        PATH: [path.dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(path.delimiter),
        TMPDIR: tmpdir(),
        LANG: 'C.UTF-8',
        ...compileCacheOfRun(),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => void (this.stdout += text))
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => void (this.stderr += text))
    this.exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      this.#child.once('close', (code, signal) => {
        this.exit = { code, signal }
        running.delete(this)
        resolve(this.exit)
      })
    })
    this.exited.catch(() => undefined)
    running.add(this)
  }

  static async start(options: AgentProcessOptions = {}): Promise<AgentProcess> {
    const folder = options.folder ?? (await mkdtemp(path.join(tmpdir(), 'mb-agent-')))
    await mkdir(path.join(folder, 'home'), { recursive: true })
    if (options.kubeconfig !== undefined) await writeFile(path.join(folder, 'kubeconfig'), options.kubeconfig)
    return new AgentProcess(folder, options)
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('metal-agent was not started.')
    return this.#child.pid
  }

  /** The log so far, without what is not JSON. */
  get log(): LogLine[] {
    const end = this.stderr.lastIndexOf('\n') + 1
    for (const line of this.stderr.slice(this.#readUpTo, end).split('\n')) {
      const parsed = line.startsWith('{') && line.endsWith('}') ? logLine.safeParse(JSON.parse(line)) : undefined
      if (parsed?.success === true) this.#lines.push(parsed.data)
    }
    this.#readUpTo = end
    return [...this.#lines]
  }

  /** Waits for the first line of the log with this message and these fields. */
  async logged(msg: string, fields: Readonly<Record<string, unknown>> = {}): Promise<LogLine> {
    return eventually(
      () => {
        return this.log.find(
          (one) => one.msg === msg && Object.entries(fields).every(([key, value]) => one[key] === value),
        )
      },
      { what: `the log line ${JSON.stringify({ msg, ...fields })}` },
    )
  }

  writeKubeconfig(content: string, file = this.kubeconfigFile): Promise<void> {
    return writeFile(file, content)
  }

  /** Answers at once whether it could be sent. */
  signal(signal: NodeJS.Signals): boolean {
    return this.#child.kill(signal)
  }

  /** `metal-agent <verb>` on this agent's state folder, in this process: what it printed and its exit code. */
  async run(verb: string, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return await runVerb([verb, ...args, '--state-dir', this.stateDir], path.join(this.folder, 'home'))
  }

  /** What `metal-agent status --json` prints. */
  async snapshot(): Promise<AgentSnapshot> {
    const { stdout, stderr } = await this.run('status', '--json')
    if (stdout === '') throw new Error(stderr)
    return agentSnapshot.parse(JSON.parse(stdout))
  }

  /** The first snapshot there is. */
  snapshotWhenUp(): Promise<AgentSnapshot> {
    return this.shows((snapshot) => snapshot.cluster.state !== 'connecting' && snapshot, 'anything')
  }

  /** Waits for a snapshot in which `probe` finds what it looks for. */
  async shows<T>(probe: (snapshot: AgentSnapshot) => T, what: string): Promise<Exclude<T, undefined | false>> {
    const last: { seen?: AgentSnapshot } = {}
    try {
      const found = eventually(
        async () => {
          last.seen = await this.snapshot()
          return probe(last.seen)
        },
        { what },
      )
      return await Promise.race([found, this.exited.then(() => Promise.reject(new Error('metal-agent has ended.')))])
    } catch (error) {
      const story = `${JSON.stringify(last.seen, null, 1)}\n${this.stderr}`
      throw new Error(`The snapshot never showed ${what}; the last one and the log: ${story}`, { cause: error })
    }
  }

  /** Waits until the service is in this state, for this reason where one is given. */
  service(name: string, state: ServiceView['state'], reason?: ServiceView['reason']): Promise<ServiceView> {
    return this.shows(
      ({ services }) =>
        services.find((one) => one.name === name && one.state === state && one.reason === (reason ?? one.reason)),
      `${name} as ${state}${reason === undefined ? '' : ` (${reason})`}`,
    )
  }

  /** SIGTERM, and SIGKILL where that is not enough. */
  async stop(): Promise<AgentExit> {
    if (this.exit) return this.exit
    this.signal('SIGTERM')
    const timer = setTimeout(() => this.signal('SIGKILL'), stopLimitMs)
    try {
      return await this.exited
    } finally {
      clearTimeout(timer)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
    if (!this.#keepFolder) await removeFolder(this.folder)
  }
}

const isRoot = process.getuid?.() === 0
const setpriv = ['setpriv', '--bounding-set', '-dac_override,-dac_read_search']

/** Why file modes mean nothing to an agent here; undefined where they do. */
export function missingSetpriv(): string | undefined {
  const works = !isRoot || spawnSync(setpriv[0] ?? '', [...setpriv.slice(1), 'true']).status === 0
  return works
    ? undefined
    : 'root reads everything, and setpriv (util-linux), which takes that from it, does not work here'
}

/** Agents that a test left behind, because it was cut short, end with the test run. */
const running = new Set<AgentProcess>()
process.once('exit', () => {
  for (const agent of running) agent.signal('SIGTERM')
})
