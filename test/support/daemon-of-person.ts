import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { eventually } from './eventually.ts'

/** The process of a daemon that a person starts, at one port, again and again. */
export abstract class DaemonOfPerson {
  readonly port: number
  #process: ReturnType<typeof spawn> | undefined

  protected constructor(port: number) {
    this.port = port
  }

  protected abstract readonly command: {
    readonly argv: readonly [program: string, ...string[]]
    readonly env: Readonly<Record<string, string>>
    /** What it answers once it runs. */
    readonly readyAt: string
    /** Its own processes are of its group, and outlive one that is killed. */
    readonly leadsGroup?: boolean
  }

  /** With each question. */
  protected get headers(): Readonly<Record<string, string>> {
    return {}
  }

  protected get pid(): number | undefined {
    return this.#process?.pid
  }

  /** Again at the same port. */
  async start(): Promise<void> {
    const { argv, env, readyAt, leadsGroup = false } = this.command
    const [program, ...args] = argv
    const { PATH = '' } = process.env
    this.#process = spawn(program, args, { stdio: 'ignore', detached: leadsGroup, env: { PATH, ...env } })
    await eventually(() => this.ask('GET', readyAt).then(({ status }) => status > 0), { what: program })
  }

  async stop(): Promise<void> {
    const running = this.#process
    if (!running || running.exitCode !== null || running.signalCode !== null) return
    running.kill('SIGCONT')
    running.kill('SIGTERM')
    await once(running, 'exit')
  }

  /** It neither answers nor ends. */
  suspend(): void {
    this.#process?.kill('SIGSTOP')
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  /** As its person does it on its page. */
  protected hangUp(): void {
    this.#process?.kill('SIGHUP')
  }

  protected kill(): void {
    this.#process?.kill('SIGKILL')
  }

  async ask(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      ...{ method, headers: { connection: 'close', ...this.headers } },
      ...(body !== undefined && { body: body instanceof Buffer ? new Uint8Array(body) : JSON.stringify(body) }),
    })
    return { status: answer.status, text: await answer.text() }
  }
}
