import { spawnSync } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** More than a soak writes, and soon filled. */
const size = '64m'

/** A small file system of its own at a folder, that can be full or read-only. */
export class Disk implements AsyncDisposable {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  /** @returns why there is none, where this user may not mount. */
  static async mount(path: string): Promise<Disk | string> {
    await mkdir(path, { recursive: true, mode: 0o700 })
    const { status } = run('mount', '-t', 'tmpfs', '-o', `size=${size},mode=700`, 'tmpfs', path)
    return status === 0 ? new Disk(path) : 'faults of the disk need the right to mount a tmpfs'
  }

  /** `dd` fails when there is no room left, which is what it is for. */
  fill(): void {
    run('dd', 'if=/dev/zero', `of=${this.#filler}`, 'bs=4k')
  }

  empty(): Promise<void> {
    return rm(this.#filler, { force: true })
  }

  /** By a read-only view of it on top: what is open for writing would keep the disk itself from being made so. */
  async protect(): Promise<void> {
    const view = `${this.#path}-view`
    await mkdir(view, { recursive: true })
    required('mount', '--bind', this.#path, view)
    required('mount', '-o', 'remount,bind,ro', view)
    required('mount', '--bind', view, this.#path)
    required('umount', view)
  }

  release(): void {
    required('umount', '-l', this.#path)
  }

  [Symbol.asyncDispose](): Promise<void> {
    while (run('umount', '-l', this.#path).status === 0);
    return Promise.resolve()
  }

  get #filler(): string {
    return join(this.#path, 'filler')
  }
}

const run = (command: string, ...args: string[]) => spawnSync(command, args, { stdio: 'pipe', encoding: 'utf8' })

function required(command: string, ...args: string[]): void {
  const { status, stderr } = run(command, ...args)
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr.trim()}`)
}
