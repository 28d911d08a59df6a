import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { appendFile, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { eventually } from '../support/eventually.ts'
import { AgentProcess } from '../support/agent-process.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { sampleMlxServerPath, sampleServerPath } from '../support/sample-servers/sample.ts'
import type { AgentName } from './faults.ts'
import { lentFolder } from './soak-objects.ts'
import { surroundingsVariable, undisturbed, type Surroundings } from './surroundings.ts'

export interface SoakAgentOptions {
  readonly name: AgentName
  /** In it everything of this agent has a folder of its name. */
  readonly folder: string
  readonly connection: ClusterConnection
  readonly hubEndpoint: string
  readonly daemonPort: number
  readonly ports: readonly [from: number, to: number]
  /** 0 = it has no client proxy. */
  readonly clientPort: number
  /** Grows by what each of its lives logged. */
  readonly logFile: string
}

/** It asks the servers it found, and reads the cluster once more where it wants to be sure. */
const settlingMs = 3_000
/** After an end that was not ordered, as a launch agent of macOS does. */
const restartAfterMs = 300
const nodeFile = z.object({ nodeId: z.string() })
const nextVersion = fileURLToPath(new URL('../support/agent-of-next-version.ts', import.meta.url))
const preload = `--import=${new URL('agent-preload.ts', import.meta.url).href}`

/** An agent that is started again whenever it ends, for as long as it is wanted. */
export class SoakAgent implements AsyncDisposable {
  readonly name: AgentName
  readonly folder: string
  readonly stateDir: string
  /** Ends that were not ordered, with the last lines of the agent. */
  readonly unexpected: string[] = []
  /** Without a disk it says why it cannot start, and ends. */
  readonly diskFaults = { open: 0, begun: 0 }
  readonly #options: SoakAgentOptions
  #surroundings = undisturbed
  #isOfNextVersion = false
  #process: AgentProcess | undefined
  /** Between a `start` and the next `end`; what was ended is not gone on with because of a later start. */
  #time: { isWanted: boolean } = { isWanted: false }
  #seesSince: number | undefined
  #readTo = 0
  #nodeId: string | undefined
  #supervision: Promise<void> = Promise.resolve()

  constructor(options: SoakAgentOptions) {
    this.name = options.name
    this.folder = join(options.folder, options.name)
    this.stateDir = join(this.folder, 'state')
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#process !== undefined && this.#process.exit === undefined
  }

  /** It runs, and has seen the cluster long enough to know what there is to do. */
  get isAtWork(): boolean {
    const agent = this.#process
    if (!agent || agent.exit) return false
    // One that was told apart by half a line is found at the next look.
    const seenTo = Math.max(0, agent.stderr.lastIndexOf('\n'))
    if (agent.stderr.slice(this.#readTo, seenTo).includes('"msg":"watching"')) this.#seesSince ??= performance.now()
    this.#readTo = seenTo
    return this.#seesSince !== undefined && performance.now() - this.#seesSince > settlingMs
  }

  /** Its claims say so; undefined before its first start. */
  get nodeId(): string | undefined {
    const file = join(this.stateDir, 'node.json')
    if (this.#nodeId === undefined && existsSync(file)) {
      this.#nodeId = nodeFile.parse(JSON.parse(readFileSync(file, 'utf8'))).nodeId
    }
    return this.#nodeId
  }

  /** From its next start on. */
  changeVersion(): void {
    this.#isOfNextVersion = !this.#isOfNextVersion
  }

  /** Undefined where none was started yet. */
  get gatewayPid(): number | undefined {
    const file = join(this.stateDir, 'gateway.pid')
    return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined
  }

  async surround(change: Partial<Surroundings>): Promise<void> {
    this.#surroundings = { ...this.#surroundings, ...change }
    await mkdir(this.folder, { recursive: true })
    await writeFileAtomic(this.#surroundingsFile, JSON.stringify(this.#surroundings))
  }

  get clockOffsetMs(): number {
    return this.#surroundings.clockOffsetMs
  }

  start(): void {
    if (this.#time.isWanted) return
    const time = { isWanted: true }
    this.#time = time
    const before = this.#supervision
    this.#supervision = before.then(() => this.#supervise(time))
  }

  /** Ends it, and it stays away until `start`. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const over = this.#supervision
    this.#time.isWanted = false
    if (signal === 'SIGTERM') await this.#process?.stop()
    else this.#process?.signal(signal)
    await over
  }

  /** Ends it for good: an agent that is terminated in its start does not yet stop what the one before it left. */
  async leave(): Promise<void> {
    await this.end('SIGTERM')
    while (this.#process?.exit?.signal === 'SIGTERM') {
      const before = this.#process
      this.start()
      await eventually(
        () => this.#process !== before && (this.#process?.exit !== undefined || this.#process?.stderr !== ''),
        { what: `the ${this.name} agent to begin` },
      )
      await this.end('SIGTERM')
    }
  }

  /**
   * Bounds how many files it may have open, by so many beside those that it has; `undefined` = as before. Not in its start, which without
   * files is none.
   */
  limitFiles(left: number | undefined): void {
    const agent = this.#process
    if (!agent || agent.exit || (left !== undefined && !this.isAtWork)) return
    const open = left === undefined ? usualFiles : openFilesOf(agent.pid) + left
    spawnSync('prlimit', ['--pid', String(agent.pid), `--nofile=${open}:`])
  }

  /** A verb of the command line: whether the agent said yes. */
  async tell(...verb: [string, ...string[]]): Promise<boolean> {
    const agent = this.#process
    if (!agent || agent.exit) return false
    return (await agent.run(...verb)).code === 0
  }

  /** Undefined where no agent answers. */
  async snapshot() {
    const agent = this.#process
    return agent && !agent.exit ? agent.snapshot().catch(() => undefined) : undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGTERM')
  }

  async #supervise(time: { readonly isWanted: boolean }): Promise<void> {
    const { connection, ports, clientPort, logFile, hubEndpoint, daemonPort } = this.#options
    await this.surround({})
    const kubeconfig = await readFile(await writeKubeconfig(join(this.folder, 'kubeconfig'), connection), 'utf8')
    while (isWanted(time)) {
      const { open, begun } = this.diskFaults
      const agent = await AgentProcess.start({
        folder: this.folder,
        kubeconfig,
        args: [
          ...flags,
          ...['--port-range', ports.join('-'), '--client-port', String(clientPort)],
          ...['--hub-endpoint', hubEndpoint, '--allowed-model-roots', lentFolder(this.#options.folder)],
          // So that MLX models are served by mlx-server wherever the soak runs.
          ...['--mlx-lm-bin', join(this.folder, 'none'), '--mlx-server-bin', sampleMlxServerPath],
          ...['--ollama-port', String(daemonPort)],
        ],
        ...(this.#isOfNextVersion ? { command: [process.execPath, nextVersion] } : { fromSource: true }),
        env: { NODE_OPTIONS: preload, [surroundingsVariable]: this.#surroundingsFile },
      })
      this.#seesSince = undefined
      this.#readTo = 0
      this.#process = agent
      // It was unwanted while it was being started.
      if (!isWanted(time)) agent.signal('SIGKILL')
      const { code, signal } = await agent.exited
      await appendFile(logFile, `${agent.stdout}${agent.stderr}-- ended: ${code ?? signal}\n`)
      if (!isWanted(time)) return
      const last = agent.stderr.trimEnd().split('\n').slice(-3).join('\n')
      if (open === 0 && this.diskFaults.begun === begun) {
        this.unexpected.push(`The ${this.name} agent ended with ${code ?? signal}: ${last}`)
      }
      await delay(restartAfterMs)
    }
  }

  get #surroundingsFile(): string {
    return join(this.folder, 'surroundings.json')
  }
}

/** A namespace is none of them, so that a person can set it. */
const flags = [
  ...[
    '--llama-server',
    sampleServerPath,
    '--allow-unsafe-extra-args',
    '--allowed-env',
    'SAMPLE_SCRIPT',
    '--host-ip',
    '',
    '--drain-timeout',
    '1s',
  ],
  ...['--eviction-enabled', '--memory-fraction', '0.95'],
]

/** More than an agent ever has. */
const usualFiles = 4_096

const openFilesOf = (pid: number): number => (existsSync(`/proc/${pid}/fd`) ? readdirSync(`/proc/${pid}/fd`).length : 0)

/** Asked anew each time: it changes while something is waited for. */
const isWanted = (time: { readonly isWanted: boolean }): boolean => time.isWanted
