import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { z } from 'zod'
import type { ShellProcess, ShellStart } from '../shell-process.ts'
import type { ControlRequest } from './control.ts'

const root = path.join(import.meta.dirname, '../../..')
const answer = z.object({ id: z.number(), value: z.unknown().optional(), error: z.string().optional() })

export class StandInProcess implements ShellProcess {
  readonly exited: Promise<number | null>
  output = ''
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (given: z.infer<typeof answer>) => void>()
  #requests = 0

  /** With the archive of a packed app it runs that one. */
  constructor({ folder, env, args = [] }: ShellStart, archive?: string) {
    const standIn = path.join(import.meta.dirname, 'register.ts')
    const program = [path.join(import.meta.dirname, 'run-app.ts'), archive ?? root]
    // Electron tells a rejection that nobody handles to `unhandledRejection` alone; Node.js would take it for an exception too.
    const options = ['--unhandled-rejections=warn-with-error-code', '--import', standIn]
    this.#child = spawn(process.execPath, [...options, ...program, ...args], {
      cwd: folder,
      env,
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

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }
}
