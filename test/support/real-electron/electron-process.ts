import type { ChildProcess } from 'node:child_process'
import { _electron, type ElectronApplication, type Page } from 'playwright'
import type { ControlRequest } from '../electron-stand-in/control.ts'
import type { ShellProcess, ShellStart } from '../shell-process.ts'
import { carriers } from './electron-requests.ts'
import type { ElectronProgram } from './find-electron.ts'
import { launchPlan } from './launch-plan.ts'

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

  static async start(start: ShellStart, electron: ElectronProgram): Promise<ElectronProcess> {
    return new ElectronProcess(await _electron.launch(launchPlan(start, electron, process.env['DISPLAY'])))
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
