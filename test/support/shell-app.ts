import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import { defaultStateDir } from '../../src/agent-core/state/state-folder.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { connectToAgent, type AgentClient } from '../../src/serve/client/agent-client.ts'
import { writeAppState } from './app-state.ts'
import { compileCacheOfRun } from './compile-cache/compile-cache.ts'
import type { ControlRequest } from './electron-stand-in/control.ts'
import type { ShownEntry } from './electron-stand-in/menu.ts'
import { chromiumVariable } from './electron-stand-in/page.ts'
import { StandInProcess } from './electron-stand-in/stand-in-process.ts'
import { eventually } from './eventually.ts'
import { ElectronProcess } from './real-electron/electron-process.ts'
import { electronAt, electronProgram, isOnElectron } from './real-electron/find-electron.ts'
import type { SampleScript } from './sample-servers/sample.ts'
import type { ServingWorld } from './serving-world.ts'
import type { ShellProcess } from './shell-process.ts'

export interface ShellAppOptions {
  /** Shared with an agent or another app; not removed at the end. */
  readonly folder?: string
  readonly kubeconfig?: string
  /** What a person has set in the app and for its agent. */
  readonly preferences?: Readonly<Record<string, unknown>>
  /** Endpoint of the Chromium that draws its windows. */
  readonly chromium?: string
  /** Of what runs it in place of the stand-in, driven as Electron is. */
  readonly electron?: string
  /** Of a packed app, which the stand-in runs in place of the build. */
  readonly archive?: string
  /** Of the client proxy; absent = none. */
  readonly clientPort?: number
  /** Added to an environment that holds little of this machine. */
  readonly env?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
}

const stopLimitMs = 40_000

const logLine = z.looseObject({ msg: z.string() })
const icon = z.object({
  image: z.string(),
  isTemplate: z.boolean(),
  toolTip: z.string(),
  title: z.string(),
  cpuMs: z.number(),
})
const rectangle = z.object({ x: z.number(), y: z.number(), width: z.number(), height: z.number() })
const look = z.object({
  icon: icon.optional(),
  windows: z.array(
    z.object({
      isVisible: z.boolean(),
      bounds: rectangle,
      hasFrame: z.boolean(),
      /** Electron does not say it of a window. */
      isPanel: z.boolean().optional(),
      background: z.string(),
      webPreferences: z.record(z.string(), z.unknown()),
      url: z.string(),
      sent: z.number(),
    }),
  ),
  isSandboxed: z.boolean(),
  isInDock: z.boolean(),
  isActive: z.boolean(),
  isMenuOpen: z.boolean(),
})
export type Look = z.infer<typeof look>

const menu: z.ZodType<ShownEntry[]> = z.array(
  z.union([
    z.string(),
    z.object({
      label: z.string(),
      get entries() {
        return menu
      },
    }),
  ]),
)

/** The built app as a process of its own: on the stand-in for Electron, or where `isOnElectron` on Electron itself. */
export class ShellApp implements AsyncDisposable {
  readonly folder: string
  readonly stateDir: string
  readonly #process: ShellProcess
  readonly #keepFolder: boolean

  private constructor(running: ShellProcess, folder: string, { folder: shared }: ShellAppOptions) {
    this.folder = folder
    this.#keepFolder = shared !== undefined
    this.stateDir = stateDirIn(folder)
    this.#process = running
  }

  static async start(options: ShellAppOptions = {}): Promise<ShellApp> {
    const folder = options.folder ?? (await mkdtemp(path.join(tmpdir(), 'mb-shell-')))
    const stateDir = stateDirIn(folder)
    await mkdir(homeIn(folder), { recursive: true })
    await mkdir(stateDir, { recursive: true, mode: 0o700 })
    if (options.kubeconfig !== undefined) await writeFile(path.join(folder, 'kubeconfig'), options.kubeconfig)
    // The usual port is one for all tests.
    const startFile = path.join(stateDir, 'start-settings.json')
    if (!existsSync(startFile)) await writeFile(startFile, JSON.stringify({ clientPort: options.clientPort ?? 0 }))
    const ofTests = { port: 0, modelStore: path.join(folder, 'models'), allowedDownloadHosts: ['127.0.0.1'] }
    if (options.preferences) await writeAppState(stateDir, { ...ofTests, ...options.preferences })
    const start = { folder, env: environment(folder, options), ...(options.args && { args: options.args }) }
    const named = options.electron === undefined ? undefined : electronAt(options.electron)
    const electron = named ?? (isOnElectron ? electronProgram() : undefined)
    const running =
      electron === undefined ? new StandInProcess(start, options.archive) : await ElectronProcess.start(start, electron)
    return new ShellApp(running, folder, options)
  }

  get exited(): Promise<number | null> {
    return this.#process.exited
  }

  get output(): string {
    return this.#process.output
  }

  /** Does what a person, a page or the system would. */
  ask(request: ControlRequest): Promise<unknown> {
    return this.#process.ask(request)
  }

  async look(): Promise<Look> {
    return look.parse(await this.ask({ do: 'look' }))
  }

  async menu(): Promise<ShownEntry[]> {
    return menu.parse(await this.ask({ do: 'openMenu' }))
  }

  /** Opens the menu and goes down these entries, each by how it begins. */
  async choose(...labels: string[]): Promise<void> {
    await this.menu()
    await this.ask({ do: 'choose', labels })
  }

  /** By the menu, and by the answer to its question where models run; answers its exit code. */
  async quit(): Promise<number | null> {
    // It may be gone before it can answer.
    const isGone = await this.choose('Quit').then(
      () => false,
      () => true,
    )
    if (!isGone) await this.press('Drain and stop').catch(() => undefined)
    return this.exited
  }

  /** Answers the question that the app asks, or asks next. */
  async press(button: string, { isChecked = false } = {}): Promise<void> {
    await Promise.race([
      eventually(() => this.ask({ do: 'question' }), { what: `a question to answer with ${button}` }),
      this.exited,
    ])
    await this.ask({ do: 'press', button, isChecked })
  }

  /** Waits for what the icon says. */
  async icon(image: string, toolTip = ''): Promise<z.infer<typeof icon>> {
    try {
      const found = eventually(
        async () => {
          const shown = (await this.look()).icon
          if (shown?.image === `${image}Template.png` && shown.toolTip.includes(toolTip)) return shown
          throw new Error(JSON.stringify(shown))
        },
        { what: `the icon ${image} with ${JSON.stringify(toolTip)}` },
      )
      return await Promise.race([found, this.exited.then(() => Promise.reject(new Error('The app has ended.')))])
    } catch (error) {
      throw new Error(`${this.output}\n${await this.log()}`, { cause: error })
    }
  }

  /** A file of its state folder. */
  async json(name: string): Promise<unknown> {
    return JSON.parse(await readFile(path.join(this.stateDir, name), 'utf8')) as unknown
  }

  /** Its log file, one line of JSON each. */
  log(): Promise<string> {
    return readFile(path.join(this.stateDir, 'metalbar.log'), 'utf8').catch(() => '')
  }

  /** What it logged, without fields. */
  async messages(): Promise<string[]> {
    const lines = (await this.log()).split('\n').filter((line) => line !== '')
    return lines.map((line) => logLine.parse(JSON.parse(line)).msg)
  }

  /** The agent of the state folder, as another program reaches it. */
  agent(): Promise<AgentClient> {
    return connectToAgent({ socketPath: socketPathFor(this.stateDir, tmpdir()), stateDir: this.stateDir })
  }

  async snapshot(): Promise<AgentSnapshot> {
    await using agent = await this.agent()
    return await agent.snapshot()
  }

  /** As the agent of the state folder shows it. */
  async service(name: string): Promise<ServiceView> {
    const found = (await this.snapshot()).services.find((service) => service.name === name)
    if (!found) throw new Error(`There is no service ${name}.`)
    return found
  }

  /** Has the world's model served; answers with the process that does. */
  async serve(world: Pick<ServingWorld, 'apply'>, name: string, script?: SampleScript): Promise<number> {
    world.apply(name, script)
    await this.icon('serving')
    return this.serverOf(name)
  }

  /** The process that serves. */
  async serverOf(name: string): Promise<number> {
    const { pid } = await this.service(name)
    if (pid === undefined) throw new Error(`${name} has no process.`)
    return pid
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal)
  }

  async stop(): Promise<number | null> {
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
    if (!this.#keepFolder) await rm(this.folder, { recursive: true, force: true })
  }
}

const homeIn = (folder: string) => path.join(folder, 'home')

/** Holds little of this machine. */
const environment = (folder: string, { chromium = '', env = {} }: ShellAppOptions) => ({
  HOME: homeIn(folder),
  XDG_STATE_HOME: folder,
  KUBECONFIG: path.join(folder, 'kubeconfig'),
  PATH: [path.dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(path.delimiter),
  TMPDIR: tmpdir(),
  LANG: 'C.UTF-8',
  ...compileCacheOfRun(),
  [chromiumVariable]: chromium,
  ...env,
})

/** As the app finds it. */
export const stateDirIn = (folder: string) =>
  defaultStateDir(process.platform, { XDG_STATE_HOME: folder }, homeIn(folder))

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
