import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import type { ControlRequest } from './electron-stand-in/control.ts'
import type { ShownEntry } from './electron-stand-in/menu.ts'
import { chromiumVariable } from './electron-stand-in/page.ts'
import { eventually } from './eventually.ts'

export interface ShellAppOptions {
  /** Shared with an agent or another app; not removed at the end. */
  readonly folder?: string
  readonly kubeconfig?: string
  /** Of the app's agent, in `preferences.json`. */
  readonly preferences?: Readonly<Record<string, unknown>>
  /** Endpoint of the Chromium that draws its windows. */
  readonly chromium?: string
  /** Added to an environment that holds little of this machine. */
  readonly env?: Readonly<Record<string, string>>
}

const root = path.join(import.meta.dirname, '../..')
const standIn = path.join(import.meta.dirname, 'electron-stand-in/register.ts')
const stopLimitMs = 40_000

const logLine = z.looseObject({ msg: z.string() })
const answer = z.object({ id: z.number(), value: z.unknown().optional(), error: z.string().optional() })
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
      isPanel: z.boolean(),
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

/** The built app as a process of its own, on the stand-in for Electron. */
export class ShellApp implements AsyncDisposable {
  readonly folder: string
  readonly stateDir: string
  readonly exited: Promise<number | null>
  output = ''
  readonly #child: ChildProcess
  readonly #keepFolder: boolean
  readonly #waiting = new Map<number, (given: z.infer<typeof answer>) => void>()
  #requests = 0

  private constructor(folder: string, { folder: shared, chromium = '', env = {} }: ShellAppOptions) {
    this.folder = folder
    this.#keepFolder = shared !== undefined
    this.stateDir = stateDirIn(folder)
    this.#child = spawn(process.execPath, ['--import', standIn, path.join(root, 'out/main/main.js')], {
      cwd: folder,
      env: {
        HOME: path.join(folder, 'home'),
        XDG_STATE_HOME: folder,
        KUBECONFIG: path.join(folder, 'kubeconfig'),
        PATH: [path.dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(path.delimiter),
        TMPDIR: tmpdir(),
        LANG: 'C.UTF-8',
        [chromiumVariable]: chromium,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => void (this.output += text))
    }
    this.#child.on('message', (message) => {
      const given = answer.parse(message)
      this.#waiting.get(given.id)?.(given)
      this.#waiting.delete(given.id)
    })
    this.exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      this.#child.once('close', (code) => resolve(code))
    })
    this.exited.catch(() => undefined)
  }

  static async start(options: ShellAppOptions = {}): Promise<ShellApp> {
    const folder = options.folder ?? (await mkdtemp(path.join(tmpdir(), 'mb-shell-')))
    const stateDir = stateDirIn(folder)
    await mkdir(path.join(folder, 'home'), { recursive: true })
    await mkdir(stateDir, { recursive: true, mode: 0o700 })
    if (options.kubeconfig !== undefined) await writeFile(path.join(folder, 'kubeconfig'), options.kubeconfig)
    if (options.preferences) {
      const preferences = {
        port: 0,
        modelStore: path.join(folder, 'models'),
        allowedDownloadHosts: ['127.0.0.1'],
        ...options.preferences,
      }
      await writeFile(path.join(stateDir, 'preferences.json'), JSON.stringify(preferences))
    }
    return new ShellApp(folder, options)
  }

  /** Has the stand-in do what a person or a page would. */
  ask(request: ControlRequest): Promise<unknown> {
    const id = ++this.#requests
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#waiting.set(id, ({ value, error }) => {
      if (error === undefined) resolve(value)
      else reject(new Error(error))
    })
    this.#child.send({ id, request }, (error) => {
      if (error) reject(error)
    })
    const ended = this.exited.then((code) => Promise.reject(new Error(`The app has ended with ${code}.`)))
    return Promise.race([promise, ended])
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

  /** As the agent of the state folder shows it. */
  async service(name: string): Promise<ServiceView> {
    await using agent = await connectToAgent({
      socketPath: socketPathFor(this.stateDir, tmpdir()),
      stateDir: this.stateDir,
    })
    const found = (await agent.snapshot()).services.find((service) => service.name === name)
    if (!found) throw new Error(`There is no service ${name}.`)
    return found
  }

  /** The process that serves. */
  async serverOf(name: string): Promise<number> {
    const { pid } = await this.service(name)
    if (pid === undefined) throw new Error(`${name} has no process.`)
    return pid
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
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

/** As the app finds it on Linux. */
export const stateDirIn = (folder: string) => path.join(folder, 'metalbar')

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
