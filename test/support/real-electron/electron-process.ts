import type { ChildProcess } from 'node:child_process'
import path from 'node:path'
import { _electron, type ElectronApplication, type Page } from 'playwright'
import type { ControlRequest } from '../electron-stand-in/control.ts'
import type { ShellProcess, ShellStart } from '../shell-process.ts'
import { carriers } from './electron-requests.ts'

const root = path.join(import.meta.dirname, '../../..')

/** Those that run, the newest last. */
const running: ElectronApplication[] = []

/** The pages of all apps that this process has started on Electron. */
export const electronPages = (): Page[] => running.flatMap((app) => app.windows())

export class ElectronProcess implements ShellProcess {
  readonly exited: Promise<number | null>
  output = ''
  readonly #app: ElectronApplication
  /** Kept: when the app has ended Playwright does not know it any more. */
  readonly #child: ChildProcess

  private constructor(app: ElectronApplication) {
    this.#app = app
    running.push(app)
    const child = app.process()
    this.#child = child
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (text: Buffer) => void (this.output += text.toString()))
    }
    this.exited = new Promise((resolve) => {
      child.once('close', (code) => {
        running.splice(running.indexOf(app), 1)
        resolve(code)
      })
    })
  }

  static async start({ folder, env }: ShellStart, executablePath: string): Promise<ElectronProcess> {
    const app = await _electron.launch({
      executablePath,
      args: ['-r', path.join(import.meta.dirname, 'hook.cjs'), root],
      cwd: folder,
      env: {
        ...env,
        DISPLAY: process.env['DISPLAY'] ?? '',
        // By which macOS finds it.
        CFFIXED_USER_HOME: env['HOME'] ?? '',
        METALBAR_TEST_HOME: folder,
      },
    })
    return new ElectronProcess(app)
  }

  ask(request: ControlRequest): Promise<unknown> {
    const carry = carriers[request.do] as ((electron: unknown, request: ControlRequest) => unknown) | undefined
    if (!carry) return Promise.reject(new Error(`Only the stand-in for Electron can do this: ${request.do}`))
    const ended = this.exited.then((code) => Promise.reject(new Error(`The app has ended with ${code}.`)))
    return Promise.race([this.#app.evaluate(carry, request), ended])
  }

  signal(signal: NodeJS.Signals): void {
    // Its browser is in the group that Playwright starts it in, and a killed app ends nobody.
    if (signal === 'SIGKILL' && this.#child.pid !== undefined) process.kill(-this.#child.pid, signal)
    else this.#child.kill(signal)
  }
}
